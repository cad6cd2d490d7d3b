"""The circuit breaker, with a clock that the test moves."""

from viking_rpc.adapters.breaker import CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def broken(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(failures=3, reset_s=1.0, clock=clock)
    for _ in range(3):
        assert breaker.wait_s() == 0.0
        breaker.fail()
    return breaker


def test_only_failures_in_a_row_open_it() -> None:
    breaker = CircuitBreaker(failures=2, reset_s=1.0, clock=Clock())
    for _ in range(5):
        breaker.fail()
        breaker.succeed()
    assert breaker.wait_s() == 0.0


def test_open_says_how_long() -> None:
    clock = Clock()
    breaker = broken(clock)
    assert breaker.wait_s() == 1.0
    clock.now = 0.75
    assert breaker.wait_s() == 0.25


def test_half_open_lets_one_call_pass() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 1.0
    assert breaker.wait_s() == 0.0
    assert breaker.wait_s() > 0.0


def test_a_good_probe_closes_it() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 1.0
    assert breaker.wait_s() == 0.0
    breaker.succeed()
    assert [breaker.wait_s() for _ in range(3)] == [0.0] * 3


def test_a_bad_probe_opens_it_again_at_once() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 1.0
    assert breaker.wait_s() == 0.0
    breaker.fail()
    assert breaker.wait_s() == 1.0


def test_an_abandoned_probe_leaves_its_place_to_another() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 1.0
    assert breaker.wait_s() == 0.0
    breaker.abandon()
    assert breaker.wait_s() == 0.0
