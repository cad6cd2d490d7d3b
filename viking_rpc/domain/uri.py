"""The one parser of `viking://` URIs: aliases, path variables and display suffixes in, one canonical form out."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.context import ContextType, Level
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.variables import disarm_variables, expand_variables
from viking_rpc.errors import InvalidArgumentError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEME: Final = "viking://"
SCOPES: Final = ("resources", "user", "agent")
MAX_URI_BYTES: Final = 2048
#: Of what a caller writes: white space, repeated slashes and path variables may make it longer than what it means.
_MAX_RAW_CHARS: Final = 8 * MAX_URI_BYTES
#: Longer names made at import are cut; the context's title keeps the whole.
MAX_NAME_BYTES: Final = 255

_SHORT_FORMS: Final = frozenset({"memories", "resources", "skills", "peers", "sessions", "privacy"})
_LEVEL_OF_NAME: Final = {level.suffix[1:]: level for level in Level if level.suffix}
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\\\\?#\ud800-\udfff]")
_ID: Final = re.compile(r"(?=.)[A-Za-z0-9_.-]*@?[A-Za-z0-9_.-]*")
_EXTENSION: Final = re.compile(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{0,9}$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Uri:
    """A canonical URI; only this module makes one from what a caller wrote.

    Args:
        segments: the scope and the names below it; empty for the root `viking://`.
    """

    segments: tuple[str, ...] = ()

    @classmethod
    def from_canonical(cls, text: str) -> Uri:
        """Split what `str()` of a URI once gave (a stored one); nothing is checked."""
        path = text[len(SCHEME) :]
        return cls(tuple(path.split("/")) if path else ())

    def __str__(self) -> str:
        """Return the canonical text: no trailing slash."""
        return SCHEME + "/".join(self.segments)

    @property
    def is_root(self) -> bool:
        """Return whether this is `viking://`, which holds the scopes and is no context itself."""
        return not self.segments

    @property
    def scope(self) -> str:
        """Return `resources`, `user` or `agent`; empty for the root."""
        return self.segments[0] if self.segments else ""

    @property
    def name(self) -> str:
        """Return the last segment; empty for the root."""
        return self.segments[-1] if self.segments else ""

    @property
    def parent(self) -> Uri:
        """Return the directory that holds it; the root is its own parent."""
        return Uri(self.segments[:-1])

    @property
    def type(self) -> ContextType:
        """Return the context type that the position means."""
        match self.segments:
            case ("user", _, "memories", *_) | ("user", _, "peers", _, "memories", *_):
                return ContextType.MEMORY
            case ("user", _, "skills", *_) | ("agent", "skills", *_):
                return ContextType.SKILL
        return ContextType.RESOURCE

    def ancestors(self) -> tuple[Uri, ...]:
        """Return every directory above it, the root `viking://` first, the parent last."""
        return tuple(Uri(self.segments[:n]) for n in range(len(self.segments)))

    def is_under(self, other: Uri) -> bool:
        """Return whether it is the other or lies below it, by whole segments: `/foo2` is not under `/foo`."""
        return self.segments[: len(other.segments)] == other.segments

    def child(self, name: str) -> Uri:
        """Return the URI of a child; the name is valid already (see `safe_name`)."""
        return Uri((*self.segments, name))


@dataclass(frozen=True, slots=True)
class ParsedUri:
    """A URI and the level that its display suffix named; None without a suffix."""

    uri: Uri
    level: Level | None = None


def parse_uri(text: str, identity: Identity, now_us: int, field: str = "uri") -> ParsedUri:
    """Read a URI that a caller wrote.

    Args:
        text: any form of the rules: aliases, short forms, path variables, display suffixes.
        identity: who `~` and the short forms mean.
        now_us: the server's time for path variables, microseconds since the epoch, UTC.
        field: where the text stood in the request, for the violation.

    Raises:
        InvalidArgumentError: reason INVALID_URI, or INVALID_ARGUMENT for an unknown path variable; one violation.
    """
    parsed = check_uri(text, identity, now_us, field)
    if isinstance(parsed, Violation):
        raise InvalidArgumentError.of([parsed])
    return parsed


def check_uri(text: str, identity: Identity, now_us: int, field: str = "uri") -> ParsedUri | Violation:
    """Do as `parse_uri`, but return what is wrong, so that a validator can gather all of a request."""
    try:
        return _parse(text, identity, now_us)
    except InvalidArgumentError as error:
        return Violation(field, error.message, error.reason)


def display_uri(uri: Uri | str, level: Level) -> str:
    """Return the URI to open for a level of a context: L0 and L1 carry their suffix; idempotent, and it parses."""
    text = str(uri)
    directory, _, name = text.rpartition("/")
    return (directory if name in _LEVEL_OF_NAME else text) + level.suffix


def is_id(text: str) -> bool:
    """Return whether a text can be the id of a user or a peer."""
    return _ID.fullmatch(text) is not None and text not in {".", ".."}


def safe_name(name: str) -> str:
    """Turn any name (of a file, of a heading) into one that a URI can hold; a valid one stays as it is."""
    safe = _UNSAFE.sub("_", unicodedata.normalize("NFC", name).replace("/", "_"))
    safe = disarm_variables(safe).encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    n_trailing = len(safe) - len(safe.rstrip())
    if n_trailing:
        safe = safe[:-n_trailing] + "_" * n_trailing
    if safe in {"", ".", ".."}:
        return "_" * max(1, len(safe))
    return "_" + safe[1:] if safe in _LEVEL_OF_NAME else safe


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Turn the names of siblings into valid and distinct ones, in their order.

    Names that need no change keep it; of the others, those that would collide get `-2`, `-3`, ... before the extension.
    """
    wanted = [(name, safe_name(name)) for name in names]
    taken = {name for name, safe in wanted if name == safe}
    kept: set[str] = set()
    next_number: dict[str, int] = {}
    result = []
    for name, safe in wanted:
        if name == safe and name not in kept:
            kept.add(name)
            result.append(name)
            continue
        unique = safe
        extension = _EXTENSION.search(safe)
        cut = extension.start() if extension else len(safe)
        while unique in taken:
            number = next_number.get(safe, 2)
            next_number[safe] = number + 1
            unique = f"{safe[:cut]}-{number}{safe[cut:]}"
        taken.add(unique)
        result.append(unique)
    return tuple(result)


def _parse(text: str, identity: Identity, now_us: int) -> ParsedUri:
    if len(text) > _MAX_RAW_CHARS:
        raise _invalid(f"is longer than {MAX_URI_BYTES} bytes")
    # NFC comes before the variables: it must not make one after they were replaced.
    text = unicodedata.normalize("NFC", text.strip())
    unsafe = _UNSAFE.search(text)
    if unsafe:
        raise _invalid(f"contains {unsafe.group()!a}; control characters, surrogates, \\, ? and # are not allowed")
    if not text.startswith(SCHEME):
        raise _invalid("must begin with viking:// in lower case, followed by resources, user, agent, session or ~")
    path = expand_variables(text[len(SCHEME) :], now_us)
    segments = [segment for segment in path.split("/") if segment]
    level = _LEVEL_OF_NAME.get(segments[-1]) if segments else None
    if level is not None:
        segments.pop()
    for segment in segments:
        _check_segment(segment)
    uri = Uri(tuple(_expand_aliases(segments, identity)))
    _check_ids(uri.segments)
    if len(str(uri).encode()) > MAX_URI_BYTES:
        raise _invalid(f"is longer than {MAX_URI_BYTES} bytes")
    return ParsedUri(uri, level)


def _check_segment(segment: str) -> None:
    if segment in {".", ".."}:
        raise _invalid("contains a . or .. segment")
    if segment in _LEVEL_OF_NAME:
        raise _invalid(f"{segment} names a level and can only stand at the end, once")
    # Trimming would take the blank away as soon as the name stood at the end of a URI.
    if segment != segment.rstrip():
        raise _invalid(f"the name {segment!r} ends with white space")


def _expand_aliases(segments: list[str], identity: Identity) -> list[str]:
    """Replace `~`, `session` and the short forms of the caller's own subtree; check the scope."""
    if not segments:
        return segments
    scope, *rest = segments
    if scope == "~":
        return ["user", _me(identity), *rest]
    if scope == "session":
        return ["user", _me(identity), "sessions", *rest]
    if scope not in SCOPES:
        raise _invalid(f"unknown scope {scope!r}; there are resources, user, agent, and the aliases session and ~")
    # A user whose id is one of these names means the own root by it, as everybody does by the own id.
    if scope == "user" and rest and rest[0] in _SHORT_FORMS:
        me = _me(identity)
        return segments if rest[0] == me else [scope, me, *rest]
    return segments


def _me(identity: Identity) -> str:
    if identity.role is Role.ROOT or not identity.user:
        raise _invalid("~, session and the short forms need a user, and a root caller is none: use viking://user/<id>")
    return identity.user


def _check_ids(segments: tuple[str, ...]) -> None:
    match segments:
        case ("user", user, *_) if not is_id(user):
            raise _invalid(f"{user!r} cannot be a user id: letters, digits, _ . - and at most one @")
        case ("user", _, "peers", peer, *_) if not is_id(peer):
            raise _invalid(f"{peer!r} cannot be a peer id: letters, digits, _ . - and at most one @")


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(reason="INVALID_URI", message=message)
