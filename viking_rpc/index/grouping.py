"""How many files the directories of an account hold together: a fact of the layout that says what directories tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from viking_kernels.arrays import Tree

#: One number for each type of context, in [0, 1].
Grouping = tuple[float, ...]

_N_TYPES = 4
#: What is taken to have been seen before anything is: files, and directories that hold them. Of little weight.
_USUAL_FILES = 8
_USUAL_DIRECTORIES = 2
#: Files to a directory, on the mean, from which on more of them say nothing more.
_MANY = 10
#: The grouping of an account without files.
USUAL_GROUPING: Grouping = ((1 - _USUAL_DIRECTORIES / _USUAL_FILES) / (1 - 1 / _MANY),) * _N_TYPES


def grouping_of(tree: Tree) -> Grouping:
    """Return by type of context 1 - (directories that hold files / files), over its value for ten files a directory.

    0 where every file lies alone; 1 where directories hold ten files and more, on the mean.

    Args:
        tree: only nodes as laid out are looked at, so the answer stands still between layouts.
    """
    n_base = len(tree.child_lo) - 1
    files = np.flatnonzero(tree.is_directory[:n_base] == 0)
    n_files = np.bincount(tree.type[files], minlength=_N_TYPES)
    parent = tree.parent[files]  # ascending: siblings are adjacent
    first = files[np.flatnonzero(np.diff(parent, prepend=-1))]
    n_directories = np.bincount(tree.type[first], minlength=_N_TYPES)
    share = 1 - (n_directories + _USUAL_DIRECTORIES) / (n_files + _USUAL_FILES)
    return tuple(np.minimum(share / (1 - 1 / _MANY), 1.0).tolist())
