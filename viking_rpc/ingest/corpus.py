"""Read an evaluation corpus: leaves, directories, queries and judgments, one a line; errors name file and line."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.context import ContextType
from viking_rpc.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Written last into a corpus that holds all of an account, see `ingest.export`.
MANIFEST_NAME: Final = "export.json"
_QRELS_FIELDS = 3


@dataclass(frozen=True, slots=True)
class CorpusLeaf:
    """A file of a corpus; `update_us` None when its source does not say."""

    uri: str
    type: ContextType
    title: str
    text: str
    update_us: int | None = None


@dataclass(frozen=True, slots=True)
class CorpusDirectory:
    """What the source says about a directory."""

    uri: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CorpusQuery:
    """A query; `target_uri` empty: the default roots."""

    id: str
    text: str
    target_uri: str = ""


@dataclass(frozen=True, slots=True)
class Judgment:
    """How relevant a leaf is for a query; 0 is not."""

    query_id: str
    uri: str
    grade: int


def is_export(folder: Path) -> bool:
    """Return whether a corpus is an export, vectors included."""
    return (folder / MANIFEST_NAME).is_file()


def read_leaves(folder: Path) -> Iterator[CorpusLeaf]:
    """Yield the leaves of `corpus.jsonl.gz`.

    Raises:
        NotFoundError: reason FILE_NOT_FOUND.
        InvalidArgumentError: reason BAD_CORPUS; so do all readers of this module.
    """
    path = folder / "corpus.jsonl.gz"
    for i, record in read_records(path):
        uri = _uri(record, path, i)
        name = _text(record, "context_type", path, i).upper()
        if name not in ContextType.__members__:
            raise bad_line(path, i, f"context_type {name.lower()!r} is none of resource, memory, skill")
        title, text = _text(record, "title", path, i), _text(record, "text", path, i)
        yield CorpusLeaf(uri, ContextType[name], title, text, _time(record, path, i))


def read_directories(folder: Path) -> Iterator[CorpusDirectory]:
    """Yield the directories of `dirs.jsonl.gz`; none when there is no such file."""
    path = folder / "dirs.jsonl.gz"
    if path.exists():
        for i, record in read_records(path):
            yield CorpusDirectory(
                _uri(record, path, i), _text(record, "title", path, i), _text(record, "text", path, i)
            )


def read_queries(folder: Path) -> Iterator[CorpusQuery]:
    """Yield the queries of `queries.jsonl.gz`."""
    path = folder / "queries.jsonl.gz"
    for i, record in read_records(path):
        target = record.get("target_uri") or ""
        if not isinstance(target, str):
            raise bad_line(path, i, "target_uri is no text")
        yield CorpusQuery(_text(record, "id", path, i), _text(record, "text", path, i), target)


def read_judgments(folder: Path) -> Iterator[Judgment]:
    """Yield the judgments of `qrels.tsv`."""
    path = folder / "qrels.tsv"
    for i, line in _read_lines(path):
        fields = line.split("\t")
        if len(fields) != _QRELS_FIELDS:
            raise bad_line(path, i, f"has {len(fields)} fields, not query id, uri and grade")
        if not fields[2].isdecimal():
            raise bad_line(path, i, f"grade {fields[2]!r} is no number")
        yield Judgment(fields[0], fields[1], int(fields[2]))


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line) of the lines that are not blank."""
    if not path.exists():
        raise NotFoundError("FILE_NOT_FOUND", f"the corpus has no {path.name}: {path}", {"path": str(path)})
    i = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for i, line in enumerate(file, 1):
                if line.strip():
                    yield i, line.decode("utf-8").rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise bad_line(path, i, f"cannot be read: {error}") from error


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, JSON object) of a file of lines, compressed or not."""
    for i, line in _read_lines(path):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise bad_line(path, i, f"is no JSON: {error}") from error
        if not isinstance(record, dict):
            raise bad_line(path, i, "is no JSON object")
        yield i, record


def _text(record: dict[str, Any], key: str, path: Path, i: int) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise bad_line(path, i, f"{key} is missing or no text")
    return value


def _uri(record: dict[str, Any], path: Path, i: int) -> str:
    uri = _text(record, "uri", path, i)
    if not uri.startswith("viking://") or uri.endswith("/"):
        raise bad_line(path, i, f"uri {uri!r} is no canonical viking:// URI")
    return uri


def _time(record: dict[str, Any], path: Path, i: int) -> int | None:
    value = record.get("updated_at")
    if value is None or value == "":
        return None
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise bad_line(path, i, f"updated_at {value!r} is no ISO 8601 time") from error
    # A store's times begin in 1970, and its 0 is no time: older texts are of the first moment.
    return max(int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000_000), 1)


def bad_line(path: Path, i: int, what: str) -> InvalidArgumentError:
    """Say what is wrong with a line of a corpus."""
    where = f"{path}:{i}"
    return InvalidArgumentError("BAD_CORPUS", f"{where}: {what}", {"path": str(path), "line": str(i)})
