"""Write what was fitted as a part of a configuration file, with where it comes from and how far it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from viking_rpc.evaluate.trials import options_of

if TYPE_CHECKING:
    from viking_rpc.evaluate.bootstrap import Estimate
    from viking_rpc.evaluate.tune import Tuning

#: What decides scores, and not how many of them are made: the reference profile must have the same.
_SCORING: Final = ("lexical_weight", "score_propagation_alpha")


def fragment(tuning: Tuning, *, model: str, seed: int, allow_noise: bool = False) -> str:
    """Return TOML that `viking serve --config` reads.

    Values whose gain is within noise are written as comments: such a file changes nothing until somebody decides so.

    Args:
        tuning: what was fitted.
        model: of the embedder that it was fitted with.
        seed: of folds and resamples.
        allow_noise: put the values into effect whatever they gain.
    """
    sets = ", ".join(f"{one.name} ({one.n_queries} queries)" for one in tuning.sets)
    lines = [
        "Parameters of the BALANCED profile, fitted by `viking tune`.",
        f"Sets: {sets}; embedder: {model}; {len(tuning.folds)} folds, seed {seed}.",
        f"nDCG@10, mean over sets: {tuning.default:.4f} by the defaults, {tuning.tuned:.4f} by these.",
        f"Gain on the queries they were fitted to: {percent(tuning.train)}.",
        f"Gain on held-out queries: {percent(tuning.held_out)}.",
        f"Rows scored for a query: {tuning.rows_default:,.0f} by the defaults, {tuning.rows_tuned:,.0f} by these.",
        *(f"WARNING: {warning}." for warning in tuning.warnings()),
    ]
    is_off = tuning.is_within_noise and not allow_noise
    if is_off and tuning.choice:
        lines.append("The values below are hence not in effect; remove the marks to use them.")
    parts = ["\n".join(f"# {line}" for line in lines)]
    for profile, values in sections(tuning).items():
        body = [f"[retrieval.{profile}]", *(f"{name} = {value}" for name, value in values.items())]
        parts.append("\n".join(f"# {line}" if is_off else line for line in body))
    return "\n\n".join(parts) + "\n"


def sections(tuning: Tuning) -> dict[str, dict[str, Any]]:
    """Return the values by profile: those of BALANCED, and of them what decides scores for EXHAUSTIVE too."""
    options = options_of(tuning.choice)
    balanced = {name: getattr(options, name) for name, _ in tuning.choice}
    scoring = {name: value for name, value in balanced.items() if name in _SCORING}
    return {profile: values for profile, values in (("balanced", balanced), ("exhaustive", scoring)) if values}


def percent(gain: Estimate) -> str:
    """Return a gain with its interval for people."""
    return f"{100 * gain.value:+.1f} % (95 %: {100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
