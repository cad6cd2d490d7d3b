"""`viking mv` and `touch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_mv_renames_a_subtree_and_touch_counts(cli: Cli, data: str) -> None:
    n_below = len(cli("ls", f"{ROOT}/locks", "--data", data, "--json").json)
    moved = cli("mv", f"{ROOT}/locks", f"{ROOT}/doors/locks", "--data", data)
    assert (moved.code, moved.out) == (0, f"moved {n_below + 1} contexts\n")
    uri = f"{ROOT}/doors/locks/bus.md"
    assert cli("touch", uri, uri, "--data", data).code == 0
    assert cli("read", uri, "--data", data, "--json").json["active_count"] == 2
    again = cli("mv", f"{ROOT}/locks", f"{ROOT}/x", "--data", data)
    assert again.code != 0
    assert "does not exist" in again.err
