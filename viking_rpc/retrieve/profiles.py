"""Profiles: named presets of how a search runs, and the parameters of one request resolved from them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from viking_rpc.domain.query import Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.domain.query import RetrieveOptions


@dataclass(frozen=True, slots=True)
class Parameters:
    """How a search runs, every value decided. The names are those of the request's options; 0 switches a limit off."""

    score_propagation_alpha: float
    hotness_alpha: float
    lexical_weight: float
    global_top_k: int
    leaf_seeds: int
    parallelism: int
    convergence_rounds: int
    max_scored_rows: int


#: The measured defaults; docs/algorithm.md says how they were fitted and on what.
BALANCED = Parameters(
    score_propagation_alpha=0.7,
    hotness_alpha=0.0,
    lexical_weight=0.7,
    global_top_k=10,
    leaf_seeds=10,
    parallelism=4,
    convergence_rounds=3,
    max_scored_rows=0,
)

#: The published algorithm: dense scores only, no propagation unless asked for.
CLASSIC = replace(BALANCED, score_propagation_alpha=1.0, lexical_weight=0.0, leaf_seeds=0)

#: The reference for recall: the scores of BALANCED, no early stop.
EXHAUSTIVE = replace(BALANCED, convergence_rounds=0)

PRESETS: Mapping[Profile, Parameters] = {
    Profile.BALANCED: BALANCED,
    Profile.CLASSIC: CLASSIC,
    Profile.EXHAUSTIVE: EXHAUSTIVE,
}


def resolve_parameters(options: RetrieveOptions, presets: Mapping[Profile, Parameters] = PRESETS) -> Parameters:
    """Return the profile's preset with what the request sets in its place."""
    preset = presets[options.profile]
    given = {field.name: getattr(options, field.name) for field in fields(Parameters)}
    return replace(preset, **{name: value for name, value in given.items() if value is not None})


def with_settings(settings: Mapping[Profile, Mapping[str, float | int | None]]) -> dict[Profile, Parameters]:
    """Return the presets with the operator's replacements; None leaves a value as it is."""
    return {
        profile: replace(
            preset, **{name: value for name, value in settings.get(profile, {}).items() if value is not None}
        )
        for profile, preset in PRESETS.items()
    }
