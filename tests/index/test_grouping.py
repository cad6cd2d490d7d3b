"""How many files share a directory, against counting by hand; it stands still between layouts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.retrieve.worlds import grow, lay_out, make_account
from viking_rpc.domain.query import Profile, RetrieveOptions, TraceLevel
from viking_rpc.index.grouping import USUAL_GROUPING, grouping_of
from viking_rpc.retrieve.profiles import BALANCED, CLASSIC, PRESETS, make_rules, resolve_parameters, with_settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.oracle.model import World
    from viking_rpc.retrieve.profiles import Parameters

SEEDS = range(20)


def counted(world: World) -> list[float]:
    """Count files and the directories that hold them, by the type of a directory's first file by name."""
    files: dict[int, int] = defaultdict(int)
    held: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for path, context in world.items():
        if path and not context.is_directory:
            files[context.type] += 1
            held[path[:-1]].append(path)
    directories: dict[int, int] = defaultdict(int)
    for paths in held.values():
        directories[world[min(paths)].type] += 1
    return [min((1 - (directories[kind] + 2) / (files[kind] + 8)) / 0.9, 1) for kind in range(4)]


def alpha_of(parameters: Parameters, grouping: tuple[float, ...]) -> NDArray[np.float32]:
    """Return the weights of own scores by type."""
    rules = make_rules(
        parameters,
        grouping,
        threshold=0.0,
        is_gte=False,
        limit=10,
        is_classic=False,
        is_steered=False,
        trace_level=TraceLevel.NONE,
    )
    return np.array(rules.alpha)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_what_counting_gives(seed: int) -> None:
    world = make_account(seed, 60)
    assert lay_out(world).grouping == pytest.approx(counted(world))


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_fresh_nodes_leave_it_as_it_is(seed: int) -> None:
    snapshot = grow(seed, make_account(seed, 60))
    assert snapshot.n_nodes > snapshot.n_base
    assert snapshot.grouping == grouping_of(snapshot.tree)


def test_an_account_without_files_has_the_usual_one() -> None:
    world = {path: context for path, context in make_account(3, 20).items() if not path}
    assert lay_out(world).grouping == USUAL_GROUPING == (0.75 / 0.9,) * 4


def test_the_more_files_share_a_directory_the_more_it_tells() -> None:
    alpha = alpha_of(BALANCED, (0.0, 0.5, 0.75, 1.0))
    assert alpha == pytest.approx([1.0, 1 - 0.47 * 0.5**3, 1 - 0.47 * 0.75**3, 0.53])


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.55, 0.7, 1.0])
def test_an_alpha_that_is_given_holds_as_it_is(alpha: float) -> None:
    asked = resolve_parameters(RetrieveOptions(score_propagation_alpha=alpha))
    decided = with_settings({Profile.BALANCED: {"score_propagation_alpha": alpha}})[Profile.BALANCED]
    for parameters in (asked, decided):
        assert (alpha_of(parameters, (0.0, 0.3, 0.9, 0.99)) == np.float32(alpha)).all()


def test_other_options_leave_the_fitting_on() -> None:
    asked = resolve_parameters(RetrieveOptions(lexical_weight=0.5))
    assert (asked.grouping_power, asked.directory_lexical_weight) == (BALANCED.grouping_power, 0.5)


def test_classic_knows_nothing_of_it() -> None:
    assert (alpha_of(CLASSIC, (0.0, 0.3, 0.9, 0.99)) == 1.0).all()
    assert PRESETS[Profile.EXHAUSTIVE].grouping_power == BALANCED.grouping_power
