"""Plan a whole tree from its leaves: every directory gets its abstract and overview, bottom-up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from viking_rpc.domain.context import ContextType, Kind
from viking_rpc.domain.tokens import cut_to_tokens
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import InvalidArgumentError
from viking_rpc.ingest.summarize import ABSTRACT_TOKENS, lead

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from viking_rpc.domain.ports import Summarizer

_SCOPE_DEPTH = 3  # slashes in `viking://resources/x`: the first level that an import may describe


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file to plan; `type` None: by its position; `abstract` empty: the first sentences of the text."""

    uri: str
    title: str
    text: str
    type: ContextType | None = None
    abstract: str = ""
    update_us: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class DirectoryText:
    """What a source says about a directory: its title, its own text, and the file that became it, if one did."""

    title: str = ""
    text: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class PlannedContext:
    """A context as an import wants it; `update_us` None: the time of the write; `source`: the file that it is from."""

    uri: str
    kind: Kind
    type: ContextType
    title: str
    abstract: str = ""
    overview: str = ""
    content: str = ""
    update_us: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


def plan_tree(
    leaves: Iterable[Leaf],
    directories: Mapping[str, DirectoryText],
    summarizer: Summarizer,
    *,
    root: str = "viking://",
    tags: Mapping[str, str] | None = None,
) -> list[PlannedContext]:
    """Plan every context from a root down.

    A directory's abstract is made of its own text where it has one, else of its children's titles and abstracts; its
    overview lists its children by name. The scopes themselves (`viking://resources`, ...) belong to no import and are
    left out, and so are directories without a leaf below.

    Args:
        leaves: the files, in any order.
        directories: what is known about directories, by URI.
        summarizer: writes abstracts and overviews.
        root: the canonical URI above which nothing is planned.
        tags: put on every context, besides a leaf's own.

    Returns:
        The contexts sorted by URI, so that parents come before their children.

    Raises:
        InvalidArgumentError: reason DUPLICATE_URI, when two leaves share a URI, or one lies below another.
    """
    common = dict(tags or {})
    planned: dict[str, PlannedContext] = {}
    children_of: dict[str, list[str]] = {}
    for leaf in leaves:
        if leaf.uri in planned:
            raise _duplicate(leaf.uri)
        planned[leaf.uri] = _plan_leaf(leaf, {**common, **leaf.tags} if leaf.tags else common)
        _link(leaf.uri, root, children_of)
    # Deepest first: a directory is written when all of its children are.
    for uri in sorted(children_of, key=lambda uri: -uri.count("/")):
        if uri in planned:
            raise _duplicate(uri)
        children = [planned[child] for child in sorted(children_of[uri])]
        planned[uri] = _plan_directory(uri, children, directories.get(uri, DirectoryText()), summarizer, common)
    return [planned[uri] for uri in sorted(planned)]


def _link(uri: str, root: str, children_of: dict[str, list[str]]) -> None:
    """Enter a leaf with its parent, and every new parent with its own, up to the root."""
    prefix = root.rstrip("/")
    while uri != prefix:
        parent = uri.rpartition("/")[0]
        if len(parent) < len(prefix) or parent.count("/") < _SCOPE_DEPTH:
            return
        siblings = children_of.get(parent)
        if siblings is not None:
            siblings.append(uri)
            return
        children_of[parent] = [uri]
        uri = parent


def _plan_leaf(leaf: Leaf, tags: Mapping[str, str]) -> PlannedContext:
    return PlannedContext(
        uri=leaf.uri,
        kind=Kind.FILE,
        type=leaf.type or Uri.from_canonical(leaf.uri).type,
        title=leaf.title,
        abstract=leaf.abstract or lead(leaf.text),
        content=leaf.text,
        update_us=leaf.update_us,
        tags=tags,
        source=leaf.source,
    )


def _plan_directory(
    uri: str, children: list[PlannedContext], own: DirectoryText, summarizer: Summarizer, tags: Mapping[str, str]
) -> PlannedContext:
    title = own.title or _name(uri)
    if own.text.strip():
        abstract = summarizer.abstract(title, [own.text])
    elif len(children) == 1:  # one text alone would be taken for the directory's own
        only = children[0]
        abstract = cut_to_tokens(f"{title}: {only.title}. {_without_title(only)}".strip(), ABSTRACT_TOKENS)
    else:
        abstract = summarizer.abstract(title, [f"{child.title}\n{child.abstract}" for child in children])
    sections = [(_name(child.uri), _without_title(child)) for child in children]
    if own.text.strip():
        sections.insert(0, ("", abstract))
    times = [child.update_us for child in children if child.update_us is not None]
    types = {child.type for child in children}
    return PlannedContext(
        uri=uri,
        kind=Kind.DIRECTORY,
        type=types.pop() if len(types) == 1 else Uri.from_canonical(uri).type,
        title=title,
        abstract=abstract,
        overview=summarizer.overview(title, sections),
        update_us=max(times, default=None),
        tags=tags,
        source=own.source,
    )


def _without_title(child: PlannedContext) -> str:
    """Return an abstract without the title that it may begin with: an overview names the child already."""
    return child.abstract.removeprefix(f"{child.title}: ")


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _duplicate(uri: str) -> InvalidArgumentError:
    return InvalidArgumentError("DUPLICATE_URI", f"two contexts would be {uri}, or one lies below a file", {"uri": uri})
