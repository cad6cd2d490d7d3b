"""The ways to search that an evaluation compares: arms by name, and sweeps of one parameter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from viking_rpc.config import ProfileSettings
from viking_rpc.domain.query import Mode, Profile, RetrieveOptions
from viking_rpc.domain.search import MergeOptions
from viking_rpc.errors import InvalidArgumentError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to search that is measured; `is_planned`: a plan is made of each query, and its answers are merged."""

    mode: Mode
    options: RetrieveOptions = field(default_factory=RetrieveOptions)
    is_planned: bool = False
    merge: MergeOptions = field(default_factory=MergeOptions)


#: Every other arm is compared with this one.
BASE: Final = "flat_hybrid"
DESCENT: Final = "thinking"

ARMS: Final[Mapping[str, Arm]] = {
    "flat_dense": Arm(Mode.QUICK, RetrieveOptions(lexical_weight=0.0)),
    "flat_lexical": Arm(Mode.QUICK, RetrieveOptions(lexical_weight=1.0)),
    BASE: Arm(Mode.QUICK),
    DESCENT: Arm(Mode.THINKING),
    "exhaustive": Arm(Mode.THINKING, RetrieveOptions(profile=Profile.EXHAUSTIVE)),
}

#: Arms that are run when they are asked for.
EXTRA_ARMS: Final[Mapping[str, Arm]] = {
    "classic": Arm(Mode.THINKING, RetrieveOptions(profile=Profile.CLASSIC)),
    "search": Arm(Mode.THINKING, is_planned=True),
}

ALIASES: Final[Mapping[str, str]] = {
    "dense": "flat_dense",
    "lexical": "flat_lexical",
    "hybrid": BASE,
    "quick": BASE,
    "balanced": DESCENT,
}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One option of a request at several values, with everything else as the profile has it.

    Args:
        option: its name in `RetrieveOptions`.
        values: ascending.
        lines: the arms whose option it is.
    """

    option: str
    values: tuple[float, ...]
    lines: tuple[str, ...] = (DESCENT,)

    def arms(self) -> dict[str, Arm]:
        """Return one arm for each line and value, by `name_of`."""
        return {
            self.name_of(line, value): replace(ARMS[line], options=self._options(line, value))
            for line in self.lines
            for value in self.values
        }

    def name_of(self, line: str, value: float) -> str:
        """Return the name of the arm at one value."""
        return f"{line}[{self.option}={value:g}]"

    def _options(self, line: str, value: float) -> RetrieveOptions:
        return with_option(ARMS[line].options, self.option, value)


_TENTHS = tuple(i / 10 for i in range(11))

SWEEPS: Final[Mapping[str, Sweep]] = {
    "alpha": Sweep("score_propagation_alpha", _TENTHS),
    "lexical": Sweep("lexical_weight", _TENTHS, (DESCENT, BASE)),
    "rounds": Sweep("convergence_rounds", (1, 2, 3, 4, 6, 8, 12)),
    "seeds": Sweep("leaf_seeds", (0, 5, 10, 20, 40, 80)),
    "directories": Sweep("global_top_k", (1, 5, 10, 20, 40)),
    "parallelism": Sweep("parallelism", (1, 2, 4, 8, 16)),
}


def with_option(options: RetrieveOptions, name: str, value: float) -> RetrieveOptions:
    """Return options with one of them set; what counts is a whole number."""
    is_count = ProfileSettings.model_fields[name].annotation == int | None
    changes: dict[str, Any] = {name: int(value) if is_count else float(value)}
    return replace(options, **changes)


def arms_named(names: Iterable[str]) -> Mapping[str, Arm]:
    """Return the arms of some names, the usual ones for none; `flat-dense` and aliases are understood.

    Raises:
        InvalidArgumentError: lists every name that no arm has.
    """
    known = {**ARMS, **EXTRA_ARMS}
    wanted = [(name, name.strip().lower().replace("-", "_")) for name in names]
    found = [(name, ALIASES.get(plain, plain)) for name, plain in wanted]
    if unknown := [name for name, plain in found if plain not in known]:
        listed = ", ".join([*known, *ALIASES])
        raise InvalidArgumentError.of(Violation("--arm", f"{name!a} is none of {listed}") for name in unknown)
    return MappingProxyType({plain: known[plain] for plain in dict.fromkeys(plain for _, plain in found)} or ARMS)


def sweeps_of(texts: Iterable[str]) -> dict[str, Sweep]:
    """Read sweeps as they are typed: a name of `SWEEPS` or of an option, and values of one's own: `alpha=0,0.5,1`.

    Raises:
        InvalidArgumentError: lists everything that cannot be read.
    """
    by_option = {sweep.option: name for name, sweep in SWEEPS.items()}
    sweeps: dict[str, Sweep] = {}
    violations: list[Violation] = []
    for text in texts:
        name, equals, listed = text.partition("=")
        name = by_option.get(name, name)
        if name not in SWEEPS:
            violations.append(Violation("--sweep", f"{text!a} names none of {', '.join([*SWEEPS, *by_option])}"))
            continue
        sweep = SWEEPS[name]
        try:
            sweeps[name] = replace(sweep, values=_values(sweep.option, listed)) if equals else sweep
        except ValueError as error:
            violations.append(Violation("--sweep", f"{text!a}: {error}"))
    if violations:
        raise InvalidArgumentError.of(violations)
    return sweeps


def _values(option: str, listed: str) -> tuple[float, ...]:
    """Read numbers with commas; raise ValueError for what the option cannot be."""
    values = sorted({float(value) for value in listed.split(",")})
    for value in values:
        try:
            ProfileSettings(**{option: value})
        except ValidationError as error:
            raise ValueError(f"{value:g}: {error.errors()[0]['msg']}") from None
    return tuple(values)
