"""Run a property for a few fixed examples, or for as long as VIKING_FUZZ_S says with new ones each time."""

from __future__ import annotations

import os
import random
import sys
import time
from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, seed, settings

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds for all properties of a module; 0: the short form, the same examples in every run.
BUDGET_S: Final = float(os.environ.get("VIKING_FUZZ_S", "0"))

_EXAMPLES_AT_ONCE: Final = 100
#: Repeats what was found, beside VIKING_FUZZ_S.
_SEED: Final = os.environ.get("VIKING_FUZZ_SEED", "")


def explore(check: Callable[[], None], n_examples: int, share: float = 1.0) -> None:
    """Run a property; what it finds in the long form is printed with its seed.

    Args:
        check: a function that `hypothesis.given` wrapped, called without arguments.
        n_examples: of the short form.
        share: of the budget that this property gets.
    """
    common = settings(
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    if not BUDGET_S:
        settings(common, max_examples=n_examples, derandomize=True)(check)()
        return
    explored = settings(common, max_examples=_EXAMPLES_AT_ONCE, derandomize=False, print_blob=True)(check)
    end_s = time.monotonic() + BUDGET_S * share
    seeds = random.SystemRandom()
    while time.monotonic() < end_s:
        number = int(_SEED or seeds.getrandbits(48))
        try:
            seed(number)(explored)()
        except BaseException as error:  # told at once: the run may go on for an hour
            sys.stderr.write(f"\nfound with VIKING_FUZZ_SEED={number}: {error!r:.4000}\n")
            raise
