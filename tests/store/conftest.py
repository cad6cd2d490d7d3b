"""A database with a model, for the store's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.store.trees import DIMENSIONS
from viking_rpc.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a new database that takes vectors."""
    with Database.open(tmp_path / "viking.db") as opened:
        opened.bind_model("test-model", DIMENSIONS)
        yield opened
