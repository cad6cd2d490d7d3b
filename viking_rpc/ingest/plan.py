"""Plan an import: a folder, a file or a corpus becomes the list of contexts that it wants in the store."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from viking_rpc.domain.tokens import cut_to_tokens
from viking_rpc.domain.uri import MAX_URI_BYTES
from viking_rpc.errors import InvalidArgumentError
from viking_rpc.ingest.code import split_code
from viking_rpc.ingest.convert import Converted, UnreadableFileError, convert
from viking_rpc.ingest.corpus import read_directories, read_leaves
from viking_rpc.ingest.folder import FoundFile, WalkOptions, walk
from viking_rpc.ingest.section import Section, name_sections
from viking_rpc.ingest.skip import Skip
from viking_rpc.ingest.split import DEFAULT_MAX_CHARS, split_markdown, split_plain
from viking_rpc.ingest.summarize import ABSTRACT_TOKENS, ExtractiveSummarizer, lead
from viking_rpc.ingest.tree import DirectoryText, Leaf, PlannedContext, plan_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from viking_rpc.domain.ports import Summarizer

    Progress = Callable[[int, int, str], None]

#: The tag that says which import made a context; its value is the import's destination.
IMPORT_TAG = "import"

#: Files that speak for the directory that they lie in, the strongest first.
_INDEX_STEMS = ("_index", "index", "readme", "__init__", "mod")
_COMMENT_STARTS = ("@", "#", "//", "/*", "*", '"""', "'''")


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import wants: everything at and below `root`, parents first; and what it leaves out."""

    root: str
    contexts: tuple[PlannedContext, ...]
    skipped: tuple[Skip, ...] = ()
    n_files: int = 0
    elapsed_s: float = 0.0


@dataclass(slots=True)
class _Draft:
    """What is gathered while files are read."""

    leaves: list[Leaf] = field(default_factory=list)
    directories: dict[str, DirectoryText] = field(default_factory=dict)
    index_rank: dict[str, int] = field(default_factory=dict)


def plan_folder(
    path: Path,
    to_uri: str,
    *,
    options: WalkOptions | None = None,
    max_chars: int = DEFAULT_MAX_CHARS,
    summarizer: Summarizer | None = None,
    on_progress: Progress | None = None,
) -> ImportPlan:
    """Plan the import of a folder, whose files go directly below the destination, or of one file.

    Args:
        path: a folder or a file.
        to_uri: the canonical destination; a single file becomes a child of it.
        options: what to take of the folder.
        max_chars: a longer text becomes a directory of sections.
        summarizer: writes the directories' texts; extractive when None.
        on_progress: called with (files done, files in all, name) after each file.

    Returns:
        The plan; the same files give the same plan.

    Raises:
        NotFoundError: the path does not exist.
    """
    started = time.perf_counter()
    files, skipped = walk(path, options)
    is_folder = os.path.isdir(path)
    draft = _Draft()
    n_files = 0
    for i, found in enumerate(files, 1):
        try:
            _add_file(found, to_uri, max_chars, draft)
            n_files += 1
        except UnreadableFileError as error:
            skipped.append(Skip(found.display, error.reason, error.message))
        except OSError as error:
            reason = "PERMISSION_DENIED" if isinstance(error, PermissionError) else "UNREADABLE"
            skipped.append(Skip(found.display, reason, error.strerror or type(error).__name__))
        if on_progress:
            on_progress(i, len(files), found.display)
    root = to_uri
    if is_folder:
        own = draft.directories.get(to_uri, DirectoryText())
        draft.directories[to_uri] = DirectoryText(own.title or _folder_title(path), own.text)
    elif files:
        root = f"{to_uri}/{files[0].names[-1]}"
    tags = {IMPORT_TAG: root}
    planned = plan_tree(draft.leaves, draft.directories, summarizer or ExtractiveSummarizer(), root=root, tags=tags)
    return ImportPlan(root, tuple(planned), tuple(skipped), n_files, time.perf_counter() - started)


def plan_corpus(folder: Path, *, summarizer: Summarizer | None = None) -> ImportPlan:
    """Plan the import of an evaluation corpus; its leaves stay whole, since judgments name them.

    Raises:
        NotFoundError: a file is missing.
        InvalidArgumentError: a line cannot be read, or the corpus is empty; reason BAD_CORPUS.
    """
    started = time.perf_counter()
    leaves = [
        Leaf(leaf.uri, leaf.title, leaf.text, leaf.type, update_us=leaf.update_us) for leaf in read_leaves(folder)
    ]
    if not leaves:
        raise InvalidArgumentError("BAD_CORPUS", f"the corpus has no leaves: {folder}", {"path": str(folder)})
    directories = {entry.uri: DirectoryText(entry.title, entry.text) for entry in read_directories(folder)}
    root = _common_directory([leaf.uri for leaf in leaves])
    tags = {IMPORT_TAG: root}
    planned = plan_tree(leaves, directories, summarizer or ExtractiveSummarizer(), root=root, tags=tags)
    return ImportPlan(root, tuple(planned), (), len(leaves), time.perf_counter() - started)


def _add_file(found: FoundFile, to_uri: str, max_chars: int, draft: _Draft) -> None:
    """Read, convert and split one file; nothing is added when that fails."""
    converted = convert(found.path.name, found.path.read_bytes())
    section = _split(converted, max_chars)
    uri = "/".join((to_uri, *found.names))
    suffix = ".md" if converted.language == "markdown" else PurePath(found.names[-1]).suffix
    leaves: list[Leaf] = []
    directories: dict[str, DirectoryText] = {}
    for leaf_uri, piece in _place(section, uri, suffix):
        if piece.children:
            directories[leaf_uri] = DirectoryText(piece.title, piece.doc, found.display)
            continue
        if len(leaf_uri.encode()) > MAX_URI_BYTES:
            raise UnreadableFileError.because("NAME_TOO_LONG", f"its URI would be longer than {MAX_URI_BYTES} bytes")
        abstract = _abstract(piece, converted.language)
        leaf = Leaf(
            leaf_uri, piece.title, piece.text, abstract=abstract, update_us=found.update_us, source=found.display
        )
        leaves.append(leaf)
    draft.leaves += leaves
    draft.directories |= directories
    _add_index(converted, section, uri, draft)


def _split(converted: Converted, max_chars: int) -> Section:
    if converted.language == "markdown":
        return split_markdown(converted.title, converted.text, max_chars)
    if converted.language == "text":
        return split_plain(converted.title, converted.text, max_chars)
    return split_code(converted.title, converted.text, converted.language, max_chars)


def _place(section: Section, uri: str, suffix: str) -> Iterator[tuple[str, Section]]:
    yield uri, section
    for name, child in zip(name_sections(section.children, suffix), section.children, strict=True):
        yield from _place(child, f"{uri}/{name}", suffix)


def _abstract(piece: Section, language: str) -> str:
    """Say what a piece of code is: its own words, else its first line; other texts speak for themselves."""
    if piece.doc:
        return lead(piece.doc)
    if language in ("markdown", "text"):
        return ""
    lines = (line.strip() for line in piece.text.split("\n"))
    first = next((line for line in lines if line and not line.startswith(_COMMENT_STARTS)), "")
    return cut_to_tokens(first, ABSTRACT_TOKENS)


def _add_index(converted: Converted, section: Section, uri: str, draft: _Draft) -> None:
    """Let an index file speak for its directory."""
    directory, _, name = uri.rpartition("/")
    stem = PurePath(name).stem.lower()
    rank = _INDEX_STEMS.index(stem) if stem in _INDEX_STEMS else len(_INDEX_STEMS)
    if rank >= draft.index_rank.get(directory, len(_INDEX_STEMS)):
        return
    is_prose = converted.language in ("markdown", "text")
    text = converted.text if is_prose else section.doc
    if not text.strip():
        return
    title = converted.title if is_prose and converted.title.lower() != stem else ""
    draft.index_rank[directory] = rank
    draft.directories[directory] = DirectoryText(title, text)


def _folder_title(path: Path) -> str:
    return os.path.basename(os.path.realpath(path)).encode("utf-8", "replace").decode()


def _common_directory(uris: Sequence[str]) -> str:
    """Find the deepest directory that holds all URIs."""
    shared = os.path.commonprefix([uri.rpartition("/")[0] + "/" for uri in uris])  # noqa: RUF071 - cut at its last slash below
    return shared.rpartition("/")[0] if shared.count("/") > "viking://".count("/") else "viking://"
