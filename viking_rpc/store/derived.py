"""A laid-out snapshot as a checkpoint: which arrays, blobs and files it is made of, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from viking_kernels.arrays import Postings, Rows, Tree
from viking_rpc.index.ann import AnnIndex, AnnParameters
from viking_rpc.index.blobs import Texts
from viking_rpc.index.grouping import grouping_of
from viking_rpc.index.growing import Growing, RowBuffers, room_of
from viking_rpc.index.lexicon import K1, B
from viking_rpc.index.owners import Owner
from viking_rpc.index.sketches import no_sketches
from viking_rpc.index.snapshot import Snapshot
from viking_rpc.index.vocabulary import Vocabulary
from viking_rpc.store.checkpoint import read_checkpoint, read_revision, write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

#: Changes whenever the arrays below, or how they are made, change.
LAYOUT_VERSION = 4
_TEXTS = ("names", "titles", "abstracts", "relations")
_COLUMNS = ("base_row", "digest", "key", "version", "key_order", "sorted_key", "tie_order")
_KINDS = ("directories", "files")
#: What a write appends to, and what takes most of the memory: whoever maps a checkpoint appends in place.
_GROWING = ("rows-vectors", "rows-term_id", "rows-term_weight")


def save_snapshot(snapshot: Snapshot, folder: Path, name: str, *, model: str, layout: str) -> None:
    """Write a snapshot without fresh nodes as the checkpoint of a name.

    Args:
        snapshot: just laid out.
        folder, name: where.
        model: whose vectors these are.
        layout: what a reader must agree with: the store's id, index parameters.
    """
    arrays: dict[str, NDArray[Any]] = {name: getattr(snapshot, name) for name in _COLUMNS}
    for prefix, group in (("tree", snapshot.tree), ("rows", snapshot.rows), ("postings", snapshot.postings)):
        arrays |= {f"{prefix}-{field}": column for field, column in group._asdict().items()}
    for field in _TEXTS:
        texts: Texts = getattr(snapshot, field)
        arrays |= {f"{field}-data": texts.data, f"{field}-offset": texts.offset}
    vocabulary = snapshot.vocabulary
    arrays |= {
        "vocabulary-hashes": vocabulary.hashes,
        "vocabulary-n_rows_of_term": vocabulary.n_rows_of_term,
        "vocabulary-mean_length": vocabulary.mean_length,
    }
    owners = [(owner.node, [kind for kind in _KINDS if getattr(owner, kind) is not None]) for owner in snapshot.owners]
    facts = {
        "tags": list(snapshot.tag_ids),
        "n_rows": vocabulary.n_rows,
        "owners": owners,
        "has_expiry": snapshot.has_expiry,
        "n_contexts": snapshot.n_contexts,
    }
    write_checkpoint(
        folder,
        name,
        revision=snapshot.revision,
        model=model,
        dimensions=snapshot.dimensions,
        layout=_layout(layout),
        arrays=arrays,
        room={name: room_of(len(arrays[name])) for name in _GROWING},
        blobs={"facts": json.dumps(facts).encode()},
        files={
            f"{owner.node}-{kind}": getattr(owner, kind).save
            for owner in snapshot.owners
            for kind in _KINDS
            if getattr(owner, kind) is not None
        },
    )


def load_snapshot(
    folder: Path,
    name: str,
    *,
    model: str,
    dimensions: int,
    layout: str,
    max_revision: int,
    parameters: AnnParameters,
) -> Snapshot:
    """Map a checkpoint and return its snapshot.

    Raises:
        StaleCheckpointError, DamagedCheckpointError: it is not there, not this store's, or not whole.
    """
    checkpoint = read_checkpoint(
        folder, name, model=model, dimensions=dimensions, layout=_layout(layout), max_revision=max_revision
    )
    arrays = checkpoint.arrays
    facts = json.loads(checkpoint.blobs["facts"])
    tree = Tree(**{field: arrays[f"tree-{field}"] for field in Tree._fields})
    rows = Rows(**{field: arrays[f"rows-{field}"] for field in Rows._fields})
    columns: dict[str, Any] = {column: arrays[column] for column in _COLUMNS}
    texts: dict[str, Any] = {field: Texts(arrays[f"{field}-data"], arrays[f"{field}-offset"]) for field in _TEXTS}
    vectors, term_id, term_weight = (Growing(checkpoint.buffers[name], len(arrays[name])) for name in _GROWING)
    owners = tuple(
        Owner(
            node,
            *(
                AnnIndex.load(checkpoint.files[f"{node}-{kind}"], parameters) if kind in kinds else None
                for kind in _KINDS
            ),
        )
        for node, kinds in facts["owners"]
    )
    return Snapshot(
        revision=checkpoint.revision,
        tree=tree,
        rows=rows,
        sketches=no_sketches(rows),
        postings=Postings(**{field: arrays[f"postings-{field}"] for field in Postings._fields}),
        tag_ids={(key, value): i for i, (key, value) in enumerate(facts["tags"])},
        vocabulary=Vocabulary(
            arrays["vocabulary-hashes"],
            arrays["vocabulary-n_rows_of_term"],
            facts["n_rows"],
            arrays["vocabulary-mean_length"],
        ),
        buffers=RowBuffers(vectors, term_id, term_weight, columns={}),
        owners=owners,
        has_expiry=facts["has_expiry"],
        n_contexts=facts["n_contexts"],
        grouping=grouping_of(tree),
        **columns,
        **texts,
    )


def saved_revision(folder: Path, name: str, *, model: str, dimensions: int, layout: str) -> int:
    """Return the revision of the checkpoint of a name by its manifest alone, 0 when there is none that fits."""
    return read_revision(folder, name, model=model, dimensions=dimensions, layout=_layout(layout))


def _layout(caller: str) -> str:
    return f"snapshot {LAYOUT_VERSION}; bm25 {K1} {B}; {caller}"
