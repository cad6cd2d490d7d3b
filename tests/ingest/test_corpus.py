"""Corpora: what is read, and that errors name file and line."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from viking_rpc.domain.context import ContextType, Kind
from viking_rpc.errors import InvalidArgumentError, NotFoundError
from viking_rpc.ingest import corpus
from viking_rpc.ingest.plan import plan_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LEAF = {"uri": "viking://agent/skills/x/a.md", "context_type": "skill", "title": "A", "text": "Does a."}


def write(folder: Path, name: str, records: Iterable[object]) -> None:
    lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
    with gzip.open(folder / name, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))


def test_everything_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        "corpus.jsonl.gz",
        [
            LEAF,
            "",
            {**LEAF, "uri": "viking://agent/skills/x/b.md", "updated_at": "2026-01-02T00:00:00Z"},
            {**LEAF, "uri": "viking://agent/skills/x/c.md", "updated_at": "1958-01-09"},
        ],
    )
    write(tmp_path, "dirs.jsonl.gz", [{"uri": "viking://agent/skills/x", "title": "X", "text": "All x."}])
    write(
        tmp_path,
        "queries.jsonl.gz",
        [{"id": "q", "text": "how", "target_uri": "viking://agent", "more": 1}, {"id": "r", "text": "t"}],
    )
    (tmp_path / "qrels.tsv").write_text("q\tviking://agent/skills/x/a.md\t2\n")
    leaves = list(corpus.read_leaves(tmp_path))
    assert [leaf.update_us for leaf in leaves] == [None, 1_767_312_000_000_000, 1]
    assert leaves[0].type is ContextType.SKILL
    assert [query.target_uri for query in corpus.read_queries(tmp_path)] == ["viking://agent", ""]
    assert list(corpus.read_judgments(tmp_path)) == [corpus.Judgment("q", "viking://agent/skills/x/a.md", 2)]
    plan = plan_corpus(tmp_path)
    assert plan.root == "viking://agent/skills/x"
    assert [(context.uri, context.kind) for context in plan.contexts] == [
        ("viking://agent/skills/x", Kind.DIRECTORY),
        ("viking://agent/skills/x/a.md", Kind.FILE),
        ("viking://agent/skills/x/b.md", Kind.FILE),
        ("viking://agent/skills/x/c.md", Kind.FILE),
    ]
    assert plan.contexts[0].abstract == "All x."
    assert plan.contexts[0].title == "X"


def test_a_corpus_over_several_scopes_leaves_the_scopes_alone(tmp_path: Path) -> None:
    write(tmp_path, "corpus.jsonl.gz", [LEAF, {**LEAF, "uri": "viking://resources/y/b.md", "context_type": "resource"}])
    plan = plan_corpus(tmp_path)
    assert plan.root == "viking://"
    assert [context.uri for context in plan.contexts if context.kind is Kind.DIRECTORY] == [
        "viking://agent/skills", "viking://agent/skills/x", "viking://resources/y",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "line", "read", "what"),
    [
        ("corpus.jsonl.gz", "{", corpus.read_leaves, "is no JSON"),
        ("corpus.jsonl.gz", "[]", corpus.read_leaves, "is no JSON object"),
        ("corpus.jsonl.gz", json.dumps({**LEAF, "context_type": "x"}), corpus.read_leaves, "context_type 'x'"),
        ("corpus.jsonl.gz", json.dumps({**LEAF, "title": 1}), corpus.read_leaves, "title is missing or no text"),
        ("corpus.jsonl.gz", json.dumps({**LEAF, "uri": "http://x"}), corpus.read_leaves, "'http://x'"),
        ("corpus.jsonl.gz", json.dumps({**LEAF, "updated_at": "soon"}), corpus.read_leaves, "'soon'"),
        ("queries.jsonl.gz", '{"id": "q"}', corpus.read_queries, "text is missing"),
        ("dirs.jsonl.gz", "{}", corpus.read_directories, "uri is missing"),
    ],
)
def test_bad_lines_are_named(
    tmp_path: Path, name: str, line: str, read: Callable[[Path], Iterable[object]], what: str
) -> None:
    write(tmp_path, name, ["", line])
    with pytest.raises(InvalidArgumentError, match=f"{name}:2: ") as caught:
        list(read(tmp_path))
    assert what in str(caught.value)
    assert caught.value.metadata["line"] == "2"


@pytest.mark.parametrize("line", ["q\tu", "q\tu\tx", "q\tu\t1\t2"])
def test_bad_judgments_are_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "qrels.tsv").write_text(f"q\tu\t1\n{line}\n")
    with pytest.raises(InvalidArgumentError, match=r"qrels.tsv:2: "):
        list(corpus.read_judgments(tmp_path))


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"corpus.jsonl.gz"):
        list(corpus.read_leaves(tmp_path))
    assert list(corpus.read_directories(tmp_path)) == []
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(b"{}\n" * 99)[:-12])
    with pytest.raises(InvalidArgumentError, match=r"corpus.jsonl.gz:"):
        list(corpus.read_leaves(tmp_path))
