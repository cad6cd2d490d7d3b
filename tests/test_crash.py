"""The crash run in short: a killed writer loses nothing that it acknowledged; and the judge sees what would be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.crash import Verdict, Watch, judge, run
from benchmarks.crash_writer import ACCOUNT, digest_of, make_row, open_store
from viking_rpc.domain.context import ContextWrite, Kind
from viking_rpc.store.operations import Upsert

if TYPE_CHECKING:
    from pathlib import Path


def test_a_writer_that_is_killed_loses_nothing() -> None:
    verdict = run(rounds=5, seed=7)
    assert verdict.problems == []
    assert (verdict.lost, verdict.torn, verdict.resurrected) == (0, 0, 0)
    assert verdict.acknowledged
    assert verdict.in_flight


def test_the_judge_tells_lost_torn_and_resurrected_apart(tmp_path: Path) -> None:
    writes = {
        f"viking://resources/a/{i}": ContextWrite(f"viking://resources/a/{i}", Kind.FILE, rows=(make_row(i),))
        for i in range(4)
    }
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, [Upsert(write) for write in writes.values()])
    digests = {uri: digest_of(write) for uri, write in writes.items()}
    digests["viking://resources/a"] = digest_of(ContextWrite("viking://resources/a", Kind.DIRECTORY))

    def judged(state: dict[str, str], *begun: dict[str, str | None]) -> tuple[int, int, int]:
        verdict, watch = Verdict(), Watch(state)
        watch.begun = {n: ("upsert", dict(effects)) for n, effects in enumerate(begun)}
        judge(tmp_path, [watch], verdict)
        return verdict.lost, verdict.torn, verdict.resurrected

    first = "viking://resources/a/0"
    others = {uri: digest for uri, digest in digests.items() if uri != first}
    assert judged(digests) == (0, 0, 0)
    assert judged(others) == (0, 0, 1)
    assert judged(digests | {"viking://resources/b": "gone"}) == (1, 0, 0)
    assert judged(digests | {first: "another text"}) == (1, 0, 0)
    assert judged(others, {first: digests[first]}) == (0, 0, 0)
    assert judged(digests, {first: None}) == (0, 0, 0)
    assert judged(others, {first: digests[first], "viking://resources/b": "missing"}) == (0, 1, 0)
