"""Many short texts as one block of bytes with offsets: a million of them cost no Python objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from viking_rpc.index.layered import Layered

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """One text per node: the base ones in a block, later and replaced ones beside it.

    Args:
        data: uint8[n_bytes], the UTF-8 of all base texts, one after another.
        offset: int64[n_base + 1].
        extra: texts of fresh nodes and of base nodes whose text was replaced.
    """

    data: NDArray[np.uint8]
    offset: NDArray[np.int64]
    extra: Layered[int, bytes] = field(default_factory=Layered)
    #: Views of the two arrays that give Python values: several times faster for one text than numpy scalars.
    _bytes: memoryview = field(init=False, repr=False)
    _offsets: memoryview = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Take the views."""
        object.__setattr__(self, "_bytes", self.data.data)
        object.__setattr__(self, "_offsets", self.offset.data)

    def get_bytes(self, node: int) -> bytes:
        """Return the UTF-8 of a node's text."""
        if self.extra:
            found = self.extra.get(node)
            if found is not None:
                return found
        return bytes(self._bytes[self._offsets[node] : self._offsets[node + 1]])

    def get(self, node: int) -> str:
        """Return a node's text."""
        if self.extra:
            found = self.extra.get(node)
            if found is not None:
                return found.decode()
        return str(self._bytes[self._offsets[node] : self._offsets[node + 1]], "utf-8")

    def updated(self, changes: Mapping[int, bytes]) -> Texts:
        """Return the texts with some of them set anew."""
        return replace(self, extra=self.extra.updated(changes)) if changes else self
