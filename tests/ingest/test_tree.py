"""The planned tree: complete, parents first, summaries bottom-up and deterministic; and the rows of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.fakes import CountingEmbedder
from viking_rpc.domain.context import ContextType, Kind, Level
from viking_rpc.errors import InvalidArgumentError
from viking_rpc.index.text import hash_terms
from viking_rpc.ingest.rows import make_rows, row_texts
from viking_rpc.ingest.summarize import ExtractiveSummarizer
from viking_rpc.ingest.tree import DirectoryText, Leaf, PlannedContext, plan_tree

SUMMARIZER = ExtractiveSummarizer()
ROOT = "viking://resources/d"


def leaf(path: str, text: str = "Some text.", **more: object) -> Leaf:
    return Leaf(f"{ROOT}/{path}", path.rpartition("/")[2].removesuffix(".md").title(), text, **more)  # type: ignore[arg-type]


def by_uri(planned: list[PlannedContext]) -> dict[str, PlannedContext]:
    return {context.uri.removeprefix(ROOT).lstrip("/"): context for context in planned}


def test_directories_are_written_from_their_children_up() -> None:
    leaves = [
        leaf("a/pumps.md", "Pumps move water."),
        leaf("a/seals.md", "Seals keep water in."),
        leaf("top.md", "Start here."),
    ]
    planned = plan_tree(leaves, {ROOT: DirectoryText("Docs", "Docs of the plant.")}, SUMMARIZER, root=ROOT)
    assert [context.uri for context in planned] == sorted(context.uri for context in planned)
    tree = by_uri(planned)
    assert tree[""].abstract == "Docs of the plant."
    assert tree["a"].abstract.startswith("a: Pumps, Seals. ")
    assert tree["a"].overview == "# a\n\n- pumps.md: Pumps move water.\n- seals.md: Seals keep water in."
    assert tree[""].overview.startswith("# Docs\n\nDocs of the plant.\n\n- a: Pumps, Seals. ")
    assert tree["a/pumps.md"].content == "Pumps move water."
    assert (tree["a"].kind, tree["a/pumps.md"].kind) == (Kind.DIRECTORY, Kind.FILE)


@settings(deadline=None)
@given(st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple), max_size=20), st.randoms())
def test_every_ancestor_is_planned_once_before_its_children_in_any_order(
    paths: set[tuple[str, ...]], random: object
) -> None:
    leaves = [leaf("/".join(f"{name}d" for name in path[:-1]) + f"/{path[-1]}.md") for path in sorted(paths)]
    leaves = [
        Leaf(each.uri.replace("//", "/").replace("viking:/", "viking://"), each.title, each.text) for each in leaves
    ]
    planned = plan_tree(leaves, {}, SUMMARIZER, root=ROOT)
    seen: set[str] = set()
    for context in planned:
        assert context.uri not in seen
        assert context.uri == ROOT or context.uri.rpartition("/")[0] in seen
        seen.add(context.uri)
    random.shuffle(leaves)  # type: ignore[attr-defined]
    assert plan_tree(leaves, {}, SUMMARIZER, root=ROOT) == planned


def test_a_changed_leaf_changes_only_its_ancestors() -> None:
    before = by_uri(plan_tree([leaf("a/x.md", "Old."), leaf("a/y.md"), leaf("b/z.md")], {}, SUMMARIZER, root=ROOT))
    after = by_uri(plan_tree([leaf("a/x.md", "New."), leaf("a/y.md"), leaf("b/z.md")], {}, SUMMARIZER, root=ROOT))
    assert {path for path in before if before[path] != after[path]} <= {"", "a", "a/x.md"}
    assert before["a"] != after["a"]


def test_types_times_and_tags() -> None:
    leaves = [
        Leaf("viking://user/u/memories/m/a.md", "A", "a.", update_us=5, tags={"k": "v"}),
        Leaf("viking://user/u/memories/m/b.md", "B", "b.", ContextType.RESOURCE, update_us=9),
    ]
    planned = plan_tree(leaves, {}, SUMMARIZER, root="viking://user/u/memories/m", tags={"import": "i"})
    assert [context.type for context in planned] == [ContextType.MEMORY, ContextType.MEMORY, ContextType.RESOURCE]
    assert [context.update_us for context in planned] == [9, 5, 9]
    assert [dict(context.tags) for context in planned] == [{"import": "i"}, {"import": "i", "k": "v"}, {"import": "i"}]


@pytest.mark.parametrize("paths", [["a.md", "a.md"], ["a", "a/b.md"]])
def test_two_contexts_at_one_place_are_refused(paths: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match="viking://resources/d/a"):
        plan_tree([leaf(path) for path in paths], {}, SUMMARIZER, root=ROOT)


def test_nothing_is_planned_above_the_root_or_for_scopes() -> None:
    assert [context.uri for context in plan_tree([leaf("x.md")], {}, SUMMARIZER, root=f"{ROOT}/x.md")] == [
        f"{ROOT}/x.md"
    ]
    assert [context.uri for context in plan_tree([leaf("x.md")], {}, SUMMARIZER)] == [ROOT, f"{ROOT}/x.md"]


def test_row_texts_do_not_repeat_the_title() -> None:
    file = PlannedContext(
        "viking://resources/a.md", Kind.FILE, ContextType.RESOURCE, "Guide", "x", content="# Guide\n\nBody."
    )
    assert row_texts(file) == [(Level.DETAIL, "Guide", "Body.")]
    directory = PlannedContext(ROOT, Kind.DIRECTORY, ContextType.RESOURCE, "D", "Abstract.", "# D\n\n- a: b")
    assert row_texts(directory) == [(Level.ABSTRACT, "D", "Abstract."), (Level.OVERVIEW, "D", "- a: b")]
    assert row_texts(PlannedContext(ROOT, Kind.DIRECTORY, ContextType.RESOURCE, "D")) == []


def test_rows_hold_the_vector_and_terms_of_their_text() -> None:
    embedder = CountingEmbedder()
    planned = plan_tree([leaf("x.md", "Pumps pumps."), leaf("y.md")], {}, SUMMARIZER, root=ROOT)
    rows = make_rows(planned, embedder)
    assert [[row.level for row in each] for each in rows] == [
        [Level.ABSTRACT, Level.OVERVIEW],
        [Level.DETAIL],
        [Level.DETAIL],
    ]
    assert embedder.texts[2] == "X\nPumps pumps."
    row = rows[1][0]
    assert np.array_equal(row.vector, embedder.embed_texts(["Pumps pumps."], ["X"])[0])
    assert dict(zip(row.terms.tolist(), row.term_counts.tolist(), strict=True)) == {
        int(hash_terms(["x"])[0]): 2,  # a term of the title counts twice
        int(hash_terms(["pump"])[0]): 2,
    }
    assert make_rows([], embedder) == []
