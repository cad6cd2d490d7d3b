"""Profiles: named presets of how a search runs, and the parameters of one request resolved from them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from viking_kernels.arrays import Rules, frozen
from viking_rpc.domain.query import Profile, TraceLevel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.domain.query import RetrieveOptions
    from viking_rpc.index.grouping import Grouping


@dataclass(frozen=True, slots=True)
class Parameters:
    """How a search runs, every value decided. The names are those of the request's options; 0 switches a limit off.

    Two values are finer than the options that set them. `directory_lexical_weight` stands for `lexical_weight` at
    directories; a request's option sets both. `grouping_power` fits alpha to the account: the parent's share,
    1 - `score_propagation_alpha`, is taken times `Snapshot.grouping` to this power, so alpha is the least there is. An
    alpha that a request or the operator sets holds as it is: the power is 0 then.
    """

    score_propagation_alpha: float
    grouping_power: float
    hotness_alpha: float
    lexical_weight: float
    directory_lexical_weight: float
    global_top_k: int
    leaf_seeds: int
    parallelism: int
    convergence_rounds: int
    max_scored_rows: int


_CLASSIC_MIN_ROWS = 20

#: The measured defaults; docs/algorithm.md says how they were fitted and on what.
BALANCED = Parameters(
    score_propagation_alpha=0.53,
    grouping_power=3.0,
    hotness_alpha=0.0,
    lexical_weight=0.75,
    directory_lexical_weight=0.9,
    global_top_k=10,
    leaf_seeds=20,
    parallelism=4,
    convergence_rounds=3,
    max_scored_rows=0,
)

#: The published algorithm: dense scores only, no propagation unless asked for.
CLASSIC = replace(
    BALANCED,
    score_propagation_alpha=1.0,
    grouping_power=0.0,
    lexical_weight=0.0,
    directory_lexical_weight=0.0,
    leaf_seeds=0,
)

#: The reference for recall: the scores of BALANCED, no early stop.
EXHAUSTIVE = replace(BALANCED, convergence_rounds=0)

PRESETS: Mapping[Profile, Parameters] = {
    Profile.BALANCED: BALANCED,
    Profile.CLASSIC: CLASSIC,
    Profile.EXHAUSTIVE: EXHAUSTIVE,
}


#: What an option or setting of the first name decides too.
_FINER = {"lexical_weight": "directory_lexical_weight"}
_OPTION_NAMES = tuple(
    field.name for field in fields(Parameters) if field.name not in {*_FINER.values(), "grouping_power"}
)


def resolve_parameters(options: RetrieveOptions, presets: Mapping[Profile, Parameters] = PRESETS) -> Parameters:
    """Return the profile's preset with what the request sets in its place."""
    return _with_options(presets[options.profile], options)


@lru_cache(maxsize=1024)
def _with_options(preset: Parameters, options: RetrieveOptions) -> Parameters:
    return _replaced(preset, {name: getattr(options, name) for name in _OPTION_NAMES})


def with_settings(settings: Mapping[Profile, Mapping[str, float | int | None]]) -> dict[Profile, Parameters]:
    """Return the presets with the operator's replacements; None leaves a value as it is."""
    return {profile: _replaced(preset, settings.get(profile, {})) for profile, preset in PRESETS.items()}


def _replaced(preset: Parameters, values: Mapping[str, float | int | None]) -> Parameters:
    given: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    finer = {fine: given[coarse] for coarse, fine in _FINER.items() if coarse in given and fine not in given}
    if "score_propagation_alpha" in given:
        finer["grouping_power"] = 0.0
    return replace(preset, **given, **finer) if given else preset


@lru_cache(maxsize=1024)
def make_rules(
    parameters: Parameters,
    grouping: Grouping,
    *,
    threshold: float,
    is_gte: bool,
    limit: int,
    is_classic: bool,
    is_steered: bool,
    trace_level: TraceLevel,
) -> Rules:
    """Say how a walk goes, in the kernels' terms; most requests ask for the same."""
    least = parameters.score_propagation_alpha
    alpha = (least + (1 - least) * (1 - np.power(grouping, parameters.grouping_power))).astype(np.float32)
    return Rules(
        alpha=frozen(alpha),
        threshold=threshold,
        is_gte=int(is_gte),
        # CLASSIC mixes hotness after the cut, so its walk knows nothing of it
        hotness_alpha=0.0 if is_classic else parameters.hotness_alpha,
        parallelism=parameters.parallelism,
        convergence_rounds=parameters.convergence_rounds,
        max_rows=parameters.max_scored_rows,
        is_classic=int(is_classic),
        child_rows=max(2 * limit, _CLASSIC_MIN_ROWS),
        is_steered=int(is_steered),
        record_steps=int(trace_level >= TraceLevel.STEPS),
        record_children=int(trace_level >= TraceLevel.SCORES),
    )
