"""The import: complete, idempotent, careful with what others wrote."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.ingest.fakes import CountingEmbedder, MemoryTarget
from viking_rpc.domain.context import Context, ContextType, Kind
from viking_rpc.ingest.pipeline import ImportReport, run_import
from viking_rpc.ingest.plan import IMPORT_TAG, plan_folder

if TYPE_CHECKING:
    from pathlib import Path

TO = "viking://resources/docs"
LONG = "# Manual\n\n" + "".join(f"## Part {i}\n\n{'words of the part ' * 20}\n\n" for i in range(5))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "handbook"
    for name, text in {
        "README.md": "# Plant handbook\n\nEverything about the plant. Read it.",
        "pumps/index.md": "---\ntitle: All pumps\n---\nPumps move water.",
        "pumps/seal.md": "# Seals\n\nSeals keep water in.",
        "manual.md": LONG,
        "code/tool.py": '"""Turn a valve."""\n\n\ndef turn():\n    """Turn it once."""\n',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def load(folder: Path, target: MemoryTarget, *, allow_prune: bool = False) -> tuple[ImportReport, int]:
    embedder = CountingEmbedder()
    report = run_import(
        plan_folder(folder, TO, max_chars=1_000), target, embedder, batch_size=4, allow_prune=allow_prune
    )
    return report, len(embedder.texts)


def test_a_folder_becomes_a_tree(folder: Path) -> None:
    target = MemoryTarget()
    report, _ = load(folder, target)
    assert list(target.contexts) == sorted(target.contexts)
    assert [uri.removeprefix(TO) for uri in target.contexts] == [
        "", "/README.md", "/code", "/code/tool.py", "/manual.md", "/manual.md/01-part-0.md", "/manual.md/02-part-1.md",
        "/manual.md/03-part-2.md", "/manual.md/04-part-3.md", "/manual.md/05-part-4.md", "/pumps", "/pumps/index.md",
        "/pumps/seal.md",
    ]  # fmt: skip
    root = target.contexts[TO]
    assert (root.title, root.abstract) == ("Plant handbook", "Everything about the plant. Read it.")
    assert (target.contexts[f"{TO}/pumps"].title, target.contexts[f"{TO}/pumps"].abstract) == (
        "All pumps",
        "Pumps move water.",
    )
    assert target.contexts[f"{TO}/code/tool.py"].abstract == "Turn a valve."
    assert target.contexts[f"{TO}/manual.md"].kind is Kind.DIRECTORY
    assert target.contexts[f"{TO}/manual.md"].title == "Manual"
    assert "02-part-1.md: words of the part" in target.contexts[f"{TO}/manual.md"].overview
    assert (report.added, report.updated, report.unchanged, report.removed, report.n_files) == (13, 0, 0, 0, 5)
    assert target.n_batches == 4
    assert all(write.rows for write in target.writes.values())
    mtime_us = (folder / "README.md").stat().st_mtime_ns // 1000
    assert target.writes[f"{TO}/README.md"].update_us == mtime_us


def test_a_second_import_embeds_and_writes_nothing(folder: Path) -> None:
    target = MemoryTarget()
    load(folder, target)
    os.utime(folder / "README.md", (1, 1))
    n_batches = target.n_batches
    report, n_embedded = load(folder, target)
    assert (report.added, report.updated, report.unchanged, report.removed) == (0, 0, 13, 0)
    assert n_embedded == 0
    assert target.n_batches == n_batches


def test_a_changed_file_rewrites_itself_and_the_summaries_that_change(folder: Path) -> None:
    target = MemoryTarget()
    load(folder, target)
    target.writes.clear()
    (folder / "pumps" / "seal.md").write_text("# Seals\n\nSeals are made of rubber.")
    report, n_embedded = load(folder, target)
    # The pumps' abstract is their index file's; only their overview names the changed child.
    assert sorted(target.writes) == [f"{TO}/pumps", f"{TO}/pumps/seal.md"]
    assert (report.updated, report.unchanged) == (2, 11)
    assert n_embedded == 3


def test_vanished_files_stay_until_pruned_and_foreign_contexts_always(folder: Path) -> None:
    target = MemoryTarget()
    load(folder, target)
    foreign = Context(f"{TO}/pumps/note.md", Kind.FILE, ContextType.RESOURCE, content="by hand")
    other = Context(f"{TO}/other.md", Kind.FILE, ContextType.RESOURCE, tags={IMPORT_TAG: "viking://resources/else"})
    target.contexts |= {foreign.uri: foreign, other.uri: other}
    for name in ("pumps/index.md", "pumps/seal.md", "code/tool.py"):
        (folder / name).unlink()
    report, _ = load(folder, target)
    assert report.removed == 0
    assert f"{TO}/code/tool.py" in target.contexts
    report, _ = load(folder, target, allow_prune=True)
    assert report.removed == 4
    assert sorted(target.deleted) == [f"{TO}/code", f"{TO}/pumps/index.md", f"{TO}/pumps/seal.md"]
    assert {foreign.uri, other.uri, f"{TO}/pumps"} <= set(target.contexts)


def test_a_file_that_grows_or_shrinks_changes_its_kind(folder: Path) -> None:
    target = MemoryTarget()
    load(folder, target)
    (folder / "manual.md").write_text("# Manual\n\nShort now.")
    (folder / "pumps" / "seal.md").write_text(LONG)
    report, _ = load(folder, target)
    assert target.contexts[f"{TO}/manual.md"].kind is Kind.FILE
    assert target.contexts[f"{TO}/pumps/seal.md"].kind is Kind.DIRECTORY
    assert not [uri for uri in target.contexts if uri.startswith(f"{TO}/manual.md/")]
    assert report.removed == 5
    assert load(folder, target)[0].unchanged == len(target.contexts)


def test_sections_that_a_file_no_longer_has_go_without_pruning(folder: Path) -> None:
    target = MemoryTarget()
    load(folder, target)
    (folder / "manual.md").write_text(LONG.replace("## Part 4", "## Last"))
    report, _ = load(folder, target)
    assert f"{TO}/manual.md/05-last.md" in target.contexts
    assert f"{TO}/manual.md/05-part-4.md" not in target.contexts
    assert report.removed == 1


def test_a_directory_with_foreign_contexts_is_not_replaced_by_a_file(folder: Path) -> None:
    target = MemoryTarget()
    load(folder, target)
    foreign = Context(f"{TO}/manual.md/note.md", Kind.FILE, ContextType.RESOURCE, content="by hand")
    target.contexts[foreign.uri] = foreign
    (folder / "manual.md").write_text("Short.")
    report, _ = load(folder, target)
    assert [(skip.path, skip.reason) for skip in report.skipped] == [("manual.md", "OCCUPIED")]
    assert {foreign.uri, f"{TO}/manual.md/01-part-0.md"} <= set(target.contexts)


def test_a_file_that_no_import_made_is_not_replaced_by_a_directory(folder: Path) -> None:
    target = MemoryTarget()
    foreign = Context(f"{TO}/manual.md", Kind.FILE, ContextType.RESOURCE, content="by hand")
    target.contexts[foreign.uri] = foreign
    report, _ = load(folder, target)
    assert [(skip.path, skip.reason) for skip in report.skipped] == [("manual.md", "OCCUPIED")]
    assert target.contexts[foreign.uri] == foreign
    assert report.added == 7


def test_bad_files_are_listed_and_stop_nothing(folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (folder / "image.png").write_bytes(b"\x89PNG\0\0")
    (folder / "empty.md").write_text("")
    target = MemoryTarget()
    report, _ = load(folder, target)
    assert sorted((skip.path, skip.reason) for skip in report.skipped) == [
        ("broken.pdf", "BROKEN_FILE"), ("empty.md", "EMPTY_FILE"), ("image.png", "BINARY_FILE"),
    ]  # fmt: skip
    assert report.added == 13


def test_a_uri_that_would_be_too_long_is_listed(tmp_path: Path) -> None:
    deep = tmp_path / "docs" / "/".join(["d" * 200] * 11)
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("text")
    plan = plan_folder(tmp_path / "docs", TO)
    assert [skip.reason for skip in plan.skipped] == ["NAME_TOO_LONG"]
    assert plan.contexts == ()


def test_one_file_is_imported_below_the_destination_and_leaves_its_neighbours(folder: Path) -> None:
    target = MemoryTarget()
    load(folder, target)
    before = dict(target.contexts)
    plan = plan_folder(folder / "pumps" / "seal.md", f"{TO}/spare")
    report = run_import(plan, target, CountingEmbedder(), allow_prune=True)
    assert report.added == 1
    assert {uri: context for uri, context in target.contexts.items() if uri != f"{TO}/spare/seal.md"} == before


def test_progress_is_told(folder: Path) -> None:
    read: list[tuple[int, int, str]] = []
    written: list[tuple[int, int, str]] = []
    plan = plan_folder(folder, TO, on_progress=lambda *call: read.append(call))
    run_import(plan, MemoryTarget(), CountingEmbedder(), batch_size=3, on_progress=lambda *call: written.append(call))
    assert read[-1] == (5, 5, "pumps/seal.md")
    assert [done for done, _, _ in written] == [3, 6, 8]
    assert written[-1][1:] == (8, f"{TO}/pumps/seal.md")


def test_equal_folders_give_equal_plans(folder: Path) -> None:
    first, second = plan_folder(folder, TO), plan_folder(folder, TO)
    assert first.contexts == second.contexts


def test_an_empty_folder_plans_nothing(tmp_path: Path) -> None:
    report, _ = load(tmp_path, MemoryTarget())
    assert (report.added, report.n_files, report.skipped) == (0, 0, ())
