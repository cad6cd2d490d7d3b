"""A dictionary that is never changed: its successor shares all but the newest entries with it."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

K = TypeVar("K")
V = TypeVar("V")

#: The upper layer takes at least this many entries before it is folded into the lower one.
_MIN_UPPER = 256


class Layered(Generic[K, V]):
    """Two layers, the upper one small: it is copied with each update, the lower one seldom. No value is None.

    With n entries an update of m costs O(m + sqrt(n)) and, once in sqrt(n) / m updates, O(n).
    """

    __slots__ = ("_lower", "_n", "_upper")

    def __init__(self, lower: Mapping[K, V] | None = None) -> None:
        """Begin with the entries of a mapping, which nobody changes from now on."""
        self._lower: Mapping[K, V] = lower if lower is not None else {}
        self._upper: dict[K, V] = {}
        self._n = len(self._lower)

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    def get(self, key: K, default: V | None = None) -> V | None:
        """Return the value of a key, else the default."""
        found = self._upper.get(key)
        return found if found is not None else self._lower.get(key, default)

    def updated(self, changes: Mapping[K, V]) -> Layered[K, V]:
        """Return a mapping with some entries set anew; this one stays as it is."""
        if not changes:
            return self
        following: Layered[K, V] = Layered.__new__(Layered)
        following._n = self._n + sum(key not in self for key in changes)
        upper = {**self._upper, **changes}
        if len(upper) > max(_MIN_UPPER, 4 * isqrt(len(self._lower))):
            following._lower, following._upper = {**self._lower, **upper}, {}
        else:
            following._lower, following._upper = self._lower, upper
        return following

    def __contains__(self, key: object) -> bool:
        """Return whether a key has a value."""
        return key in self._upper or key in self._lower

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._n

    def __iter__(self) -> Iterator[K]:
        """Yield every key once."""
        yield from self._lower
        yield from (key for key in self._upper if key not in self._lower)
