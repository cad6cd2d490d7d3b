"""The approximate path: what graphs and postings find, against exact searches of the same seeded tree."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.retrieve.worlds import OPERATOR, run
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.query import Filter, Mode, Profile, Query, RetrieveOptions, Scope
from viking_rpc.domain.uri import Uri
from viking_rpc.index.ann import AnnParameters
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.owners import with_owners
from viking_rpc.index.records import ChangeSet, NodeRecord
from viking_rpc.index.update import apply_changes
from viking_rpc.retrieve.retriever import SearchSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.retrieve.worlds import Answered
    from viking_rpc.index.snapshot import Snapshot

DIM = 24
N_GROUPS, N_DIRECTORIES, N_FILES = 10, 18, 100
N_QUERIES = 40
SETTINGS = SearchSettings(max_exact_rows=300)
NO_TERMS = (np.empty(0, np.uint64), np.empty(0, np.float32))
#: Tag by share of the files that carry it, percent.
TAGS = {50.0: "half", 5.0: "few", 0.5: "rare"}
ME = Identity(user="me")


def unit(vector: NDArray[np.floating]) -> NDArray[np.float32]:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def make_records() -> list[NodeRecord]:
    """Make shared resources in groups and directories that mean something, and a user's own memories beside them."""
    rng = np.random.default_rng(7)
    records: list[NodeRecord] = []

    def add(
        parent: int, name: str, levels: tuple[Level, ...], vector: NDArray[np.floating], tags: dict[str, str]
    ) -> int:
        kind = Kind.FILE if levels == (Level.DETAIL,) else Kind.DIRECTORY
        rows = tuple(Row(level, unit(vector + 0.1 * rng.standard_normal(DIM)), *NO_TERMS) for level in levels)
        records.append(
            NodeRecord(len(records) + 1, parent, name, kind, ContextType.RESOURCE, tags=tags, rows=rows, update_us=1)
        )
        return len(records)

    both = (Level.ABSTRACT, Level.OVERVIEW)
    resources = add(0, "resources", (), np.ones(DIM), {})
    me = add(add(0, "user", (), np.ones(DIM), {}), "me", (), np.ones(DIM), {})
    memories = add(me, "memories", both, np.ones(DIM), {})
    for i in range(100):
        add(memories, f"m{i:03}.md", (Level.DETAIL,), rng.standard_normal(DIM), {})
    for group in range(N_GROUPS):
        theme = rng.standard_normal(DIM)
        top = add(resources, f"g{group}", both, theme, {})
        for directory in range(N_DIRECTORIES):
            subject = theme + 0.8 * rng.standard_normal(DIM)
            inside = add(top, f"d{directory:02}", both, subject, {})
            for i in range(N_FILES):
                tags = {name: "yes" for share, name in TAGS.items() if rng.random() * 100 < share}
                add(inside, f"f{i:03}.md", (Level.DETAIL,), subject + 0.7 * rng.standard_normal(DIM), tags)
    return records


@pytest.fixture(scope="module")
def tree() -> Snapshot:
    snapshot = build_snapshot(make_records(), revision=1, dimensions=DIM)
    return with_owners(snapshot, min_rows=1000, parameters=AnnParameters())


@pytest.fixture(scope="module")
def queries(tree: Snapshot) -> list[NDArray[np.float32]]:
    """Make questions that some file answers."""
    rng = np.random.default_rng(8)
    rows = rng.choice(np.flatnonzero(tree.rows.level == Level.DETAIL), N_QUERIES, replace=False)
    return [unit(tree.rows.vectors[row] + 0.15 * rng.standard_normal(DIM)) for row in rows]


def ask(snapshot: Snapshot, vector: NDArray[np.float32], *, is_exact: bool, **fields: object) -> Answered:
    profile = Profile.EXHAUSTIVE if is_exact else Profile.BALANCED
    options = RetrieveOptions(profile=profile)
    fields = {"identity": ME, "settings": SETTINGS, "options": options} | fields
    return run(snapshot, query=Query(vector=vector), **fields)  # type: ignore[arg-type]


def recall(snapshot: Snapshot, queries: list[NDArray[np.float32]], paths: set[str], **fields: object) -> float:
    """Return how much of the exact top 10 is found; fails when another path than the given ones was taken."""
    n_found = n_wanted = 0
    for vector in queries:
        exact = ask(snapshot, vector, is_exact=True, **fields)
        found = ask(snapshot, vector, is_exact=False, **fields)
        assert exact.result.stats.seed_path == "exact"
        assert found.result.stats.seed_path in paths
        wanted = {uri for _, uri in exact.ranking}
        n_wanted += len(wanted)
        n_found += len(wanted & {uri for _, uri in found.ranking})
    assert n_wanted > 0
    return n_found / n_wanted


def test_the_tree_is_large_enough(tree: Snapshot) -> None:
    assert tree.n_rows > 18_000
    assert len(tree.owners) == 1


@pytest.mark.parametrize("share", [100.0, *TAGS])
@pytest.mark.parametrize(("mode", "least"), [(Mode.QUICK, 0.95), (Mode.THINKING, 0.99)])
def test_recall_holds_under_any_filter(
    tree: Snapshot, queries: list[NDArray[np.float32]], share: float, mode: Mode, least: float
) -> None:
    wanted = Filter(tags={TAGS[share]: "yes"} if share in TAGS else {})
    paths = {100.0: {"exact+ann"}, 50.0: {"exact+ann"}}.get(share, {"exact+ann", "exact"})
    assert recall(tree, queries, paths, mode=mode, filter=wanted) >= least


@pytest.mark.parametrize("target", ["viking://", "viking://resources", "viking://resources/g3"])
def test_classic_starts_where_it_would_after_a_scan(
    tree: Snapshot, queries: list[NDArray[np.float32]], target: str
) -> None:
    fields = {"identity": ME, "options": RetrieveOptions(profile=Profile.CLASSIC), "scope": Scope((target,))}
    n_same = 0
    paths = set()
    for vector in queries:
        by_scan = run(tree, query=Query(vector=vector), settings=SearchSettings(max_exact_rows=10**6), **fields)
        found = run(tree, query=Query(vector=vector), settings=SETTINGS, **fields)
        assert by_scan.result.stats.seed_path == "exact"
        paths.add(found.result.stats.seed_path)
        n_same += found.ranking == by_scan.ranking
    assert paths - {"exact"}  # a graph was asked
    assert n_same >= 0.95 * len(queries)


@pytest.mark.parametrize(("mode", "least"), [(Mode.QUICK, 0.95), (Mode.THINKING, 0.99)])
def test_recall_holds_in_narrow_targets(
    tree: Snapshot, queries: list[NDArray[np.float32]], mode: Mode, least: float
) -> None:
    one = Scope(("viking://resources/g3/d07",))
    assert recall(tree, queries[:10], {"exact"}, mode=mode, scope=one) == 1.0
    group = Scope(("viking://resources/g3",))
    assert recall(tree, queries, {"ann", "exact"}, mode=mode, scope=group) >= least
    several = Scope(("viking://resources/g3", "viking://resources/g5/d01", "viking://user/me/memories/m001.md"))
    assert recall(tree, queries, {"ann", "exact+ann", "exact"}, mode=mode, scope=several) >= least


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("levels", [{Level.ABSTRACT}, {Level.ABSTRACT, Level.OVERVIEW}, {Level.DETAIL}])
def test_recall_holds_at_each_level(
    tree: Snapshot, queries: list[NDArray[np.float32]], mode: Mode, levels: set[Level]
) -> None:
    wanted = Filter(levels=frozenset(levels))
    assert recall(tree, queries, {"exact+ann", "exact"}, mode=mode, filter=wanted) >= 0.95


def test_an_operator_who_searches_everything_uses_the_graphs(
    tree: Snapshot, queries: list[NDArray[np.float32]]
) -> None:
    """One range of nodes spans several owners then."""
    assert recall(tree, queries, {"exact+ann"}, mode=Mode.QUICK, identity=OPERATOR) >= 0.95


@pytest.mark.parametrize("mode", list(Mode))
def test_excluded_best_matches_make_room(tree: Snapshot, queries: list[NDArray[np.float32]], mode: Mode) -> None:
    """Row 37: the whole group that answers best is left out, and ten others are found."""
    n_found = 0
    for vector in queries:
        best = ask(tree, vector, is_exact=True, mode=mode).ranking[0][1]
        group = "/".join(best.split("/")[:4])
        out = Filter(exclude_uris=(group,))
        found = [uri for _, uri in ask(tree, vector, is_exact=False, mode=mode, filter=out).ranking]
        exact = [uri for _, uri in ask(tree, vector, is_exact=True, mode=mode, filter=out).ranking]
        assert len(found) == len(exact) == 10
        assert not any(f"{uri}/".startswith(f"{group}/") for uri in found)
        n_found += len(set(found) & set(exact))
    assert n_found >= 0.95 * 10 * N_QUERIES


def test_places_of_another_time_are_not_mixed_up(tree: Snapshot, queries: list[NDArray[np.float32]]) -> None:
    """A place that is not remembered is freed, and the next one may lie at its address."""
    today = Filter(exclude_uris=("viking://resources/x/{calendar:today}",))
    for i in range(40):
        targets = (f"viking://resources/g{i % N_GROUPS}", f"viking://resources/g{(i + 1) % N_GROUPS}/d00")
        answered = ask(tree, queries[i], is_exact=False, mode=Mode.QUICK, scope=Scope(targets), filter=today)
        assert len(answered.ranking) == 10
        for _, uri in answered.ranking:
            assert f"{uri}/".startswith(tuple(f"{target}/" for target in targets))


@pytest.mark.parametrize("mode", list(Mode))
def test_deleted_contexts_are_gone_and_others_take_their_places(
    tree: Snapshot, queries: list[NDArray[np.float32]], mode: Mode
) -> None:
    """Rows 34 and 77."""
    gone: set[str] = set()
    for vector in queries[:10]:
        gone |= {uri for _, uri in ask(tree, vector, is_exact=True, mode=Mode.QUICK, limit=7).ranking}
    keys = [
        int(tree.key[node])
        for node in range(tree.n_nodes)
        if tree.uri(node) in gone and not tree.tree.is_directory[node]
    ]
    after = apply_changes(tree, ChangeSet(2, deleted_keys=tuple(keys)))
    uris = {tree.uri(tree.node_of_key(key)) for key in keys}
    for vector in queries[:10]:
        found = ask(after, vector, is_exact=False, mode=mode).ranking
        assert len(found) == 10
        assert not uris & {uri for _, uri in found}
    assert recall(after, queries[:10], {"exact+ann", "exact"}, mode=mode) >= 0.95


@pytest.mark.parametrize("mode", list(Mode))
def test_a_replaced_row_is_found_by_its_new_vector_only(
    tree: Snapshot, queries: list[NDArray[np.float32]], mode: Mode
) -> None:
    vector = queries[0]
    best = next(
        match.context.uri
        for match in ask(tree, vector, is_exact=True, mode=Mode.QUICK).result.matches
        if match.level is Level.DETAIL
    )
    node = next(node for node in range(tree.n_nodes) if tree.uri(node) == best)
    record = NodeRecord(
        int(tree.key[node]),
        int(tree.key[tree.tree.parent[node]]),
        best.rpartition("/")[2],
        Kind.FILE,
        ContextType.RESOURCE,
        rows=(Row(Level.DETAIL, unit(-vector), *NO_TERMS),),
        version=2,
    )
    after = apply_changes(tree, ChangeSet(2, (record,)))
    assert best not in {uri for _, uri in ask(after, vector, is_exact=False, mode=mode).ranking}
    assert ask(after, unit(-vector), is_exact=False, mode=Mode.QUICK).ranking[0] == (pytest.approx(1.0, abs=1e-5), best)


def test_fresh_contexts_are_found_at_once(tree: Snapshot, queries: list[NDArray[np.float32]]) -> None:
    best = next(match for match in ask(tree, queries[3], is_exact=True).result.matches if match.level is Level.DETAIL)
    parent = int(tree.key[tree.find(Uri.from_canonical(best.context.uri).parent)])
    rows = (Row(Level.DETAIL, queries[3], *NO_TERMS),)
    record = NodeRecord(10**6, parent, "new.md", Kind.FILE, ContextType.RESOURCE, rows=rows)
    after = apply_changes(tree, ChangeSet(2, (record,)))
    for mode in Mode:
        assert ask(after, queries[3], is_exact=False, mode=mode).ranking[0][1].endswith("/new.md")
        assert "new.md" not in "".join(uri for _, uri in ask(tree, queries[3], is_exact=False, mode=mode).ranking)


def test_a_few_own_memories_beside_many_resources_lose_nothing(tree: Snapshot) -> None:
    alone = RetrieveOptions(score_propagation_alpha=1.0)
    for node in range(tree.n_nodes):
        uri = tree.uri(node)
        if uri.startswith("viking://user/me/memories/m00"):
            vector = tree.rows.vectors[tree.tree.row_lo[node]]
            for mode in Mode:
                assert ask(tree, vector, is_exact=False, mode=mode, options=alone).ranking[0][1] == uri


def test_repeats_are_identical(tree: Snapshot, queries: list[NDArray[np.float32]]) -> None:
    """Row 16."""
    for mode in Mode:
        first = ask(tree, queries[5], is_exact=False, mode=mode).result.matches
        assert all(ask(tree, queries[5], is_exact=False, mode=mode).result.matches == first for _ in range(100))


def test_many_threads_search_while_a_writer_goes_on(tree: Snapshot, queries: list[NDArray[np.float32]]) -> None:
    """Rows 90 and 91: 32 readers share the graphs with one writer; every answer is that of its own snapshot."""
    expected = {
        mode: [ask(tree, vector, is_exact=False, mode=mode).result.matches for vector in queries] for mode in Mode
    }
    newest = [tree]
    errors: list[BaseException] = []
    is_over = threading.Event()

    def read(first: int) -> None:
        try:
            i = first
            while not is_over.is_set() or i < first + 10:
                at = i % N_QUERIES
                for mode in Mode:
                    assert ask(tree, queries[at], is_exact=False, mode=mode).result.matches == expected[mode][at]
                pinned = newest[-1]
                assert len(ask(pinned, queries[at], is_exact=False).ranking) == 10
                i += 1
        except BaseException as error:  # noqa: BLE001 - raised below, in the test's own thread
            errors.append(error)

    readers = [threading.Thread(target=read, args=(i,)) for i in range(32)]
    for reader in readers:
        reader.start()
    parent = int(tree.key[tree.tree.parent[tree.n_nodes - 1]])
    for i in range(30):
        rows = (Row(Level.DETAIL, queries[i % N_QUERIES], *NO_TERMS),)
        record = NodeRecord(10**6 + i, parent, f"new{i}.md", Kind.FILE, ContextType.RESOURCE, rows=rows)
        newest.append(apply_changes(newest[-1], ChangeSet(i + 2, (record,), (int(tree.key[-1 - i]),))))
    is_over.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert newest[-1].n_contexts == tree.n_contexts


# -- words


@pytest.fixture(scope="module")
def texts() -> Snapshot:
    """Lay out ten thousand short texts that the packaged model embeds; one of them holds a code, one is Chinese."""
    from viking_rpc.adapters.wordllama import WordLlamaEmbedder
    from viking_rpc.ingest.rows import count_row

    rng = np.random.default_rng(9)
    words = [
        "server",
        "disk",
        "network",
        "error",
        "restart",
        "backup",
        "script",
        "customer",
        "invoice",
        "meter",
        "price",
        "contract",
        "cable",
        "switch",
        "router",
        "alarm",
        "code",
        "battery",
        "update",
        "version",
        "report",
        "failure",
    ]
    lines = [" ".join(rng.choice(words, 8)) for _ in range(10_000)]
    lines[4321] = f"{lines[4321]} ERR-4711"
    lines[777] = "\u6bcf\u65e5\u5907\u4efd\u811a\u672c\u7684\u8bf4\u660e"
    vectors = WordLlamaEmbedder().embed_texts(lines)
    records = [
        NodeRecord(1, 0, "resources", Kind.DIRECTORY, ContextType.RESOURCE),
        *(NodeRecord(2 + i, 1, f"d{i:02}", Kind.DIRECTORY, ContextType.RESOURCE) for i in range(100)),
    ]
    for i, (line, vector) in enumerate(zip(lines, vectors, strict=True)):
        terms = count_row("", line)
        row = Row(Level.DETAIL, vector, terms.hashes, terms.frequencies)
        records.append(
            NodeRecord(
                1000 + i, 2 + i % 100, f"t{i:04}.md", Kind.FILE, ContextType.RESOURCE, abstract=line, rows=(row,)
            )
        )
    snapshot = build_snapshot(records, revision=1, dimensions=vectors.shape[1])
    return with_owners(snapshot, min_rows=1000, parameters=AnnParameters())


def ask_words(snapshot: Snapshot, text: str, mode: Mode) -> Answered:
    from tests.retrieve.worlds import Answered as Done
    from viking_rpc.adapters.wordllama import WordLlamaEmbedder
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.retrieve.retriever import Retrieval

    vector = WordLlamaEmbedder().embed_query(text)
    request = RetrieveRequest(Query(text=text), mode=mode)
    retrieval = Retrieval(snapshot, request, Identity(role=Role.ADMIN), vector=vector, now_us=1, settings=SETTINGS)
    while not retrieval.advance():
        pass
    return Done(retrieval, retrieval.result())


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("text", ["ERR-4711", "what does error code ERR-4711 of the router mean", "err-4711 alarm"])
def test_an_exact_code_ranks_first(texts: Snapshot, mode: Mode, text: str) -> None:
    """Row 41."""
    answered = ask_words(texts, text, mode)
    assert answered.result.stats.seed_path == "ann"
    assert "ERR-4711" in answered.result.matches[0].context.abstract


@pytest.mark.parametrize("mode", list(Mode))
def test_chinese_words_match(texts: Snapshot, mode: Mode) -> None:
    """Row 42."""
    match = ask_words(texts, "GitHub\u5907\u4efd\u811a\u672c\u4e0a\u4f20\u5931\u8d25", mode).result.matches[0]
    assert match.context.uri.endswith("/t0777.md")
    assert match.parts.lexical is not None
    assert match.parts.lexical > 0
