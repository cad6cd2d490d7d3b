"""The `.gitignore` files that hold for a path, as git reads them: the deepest file with an opinion decides."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

from viking_rpc.ingest.skip import Skip, printable

_NAME = ".gitignore"


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """An immutable chain of (folder, its patterns), the outermost first."""

    chain: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    @classmethod
    def above(cls, root: str) -> IgnoreRules:
        """Gather the rules of the repository that a folder lies in, from above it; none outside of a repository.

        Rules that ignore the folder itself do not count: who names it wants it.
        """
        above: list[str] = []
        path = root
        while not os.path.exists(os.path.join(path, ".git")):
            parent = os.path.dirname(path)
            if parent == path:
                return cls()
            path = parent
            above.append(path)
        rules = cls()
        for folder in reversed(above):
            rules = rules.inside(folder, skipped_as="", skipped=[])
        return cls() if rules.is_ignored(root, is_folder=True) else rules

    def inside(self, folder: str, *, skipped_as: str, skipped: list[Skip]) -> IgnoreRules:
        """Add the rules of a folder, if it has any; patterns that cannot be read are listed in `skipped`."""
        path = os.path.join(folder, _NAME)
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().split("\n")
        except (FileNotFoundError, IsADirectoryError):
            return self
        try:
            spec = GitIgnoreSpec.from_lines(lines)
        except ValueError:
            spec = GitIgnoreSpec.from_lines(_readable(lines, skipped_as, skipped))
        return IgnoreRules((*self.chain, (folder, spec)))

    def is_ignored(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a path below the folders of the chain is ignored."""
        for folder, spec in reversed(self.chain):
            relative = path[len(folder.rstrip("/")) + 1 :]
            found = spec.check_file(f"{relative}/" if is_folder else relative).include
            if found is not None:
                return found
        return False


def _readable(lines: list[str], skipped_as: str, skipped: list[Skip]) -> list[str]:
    kept = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError as error:
            path = printable(f"{skipped_as}/{_NAME}".lstrip("/"))
            skipped.append(Skip(path, "BAD_PATTERN", f"the pattern {printable(line)!r} cannot be read: {error}"))
        else:
            kept.append(line)
    return kept
