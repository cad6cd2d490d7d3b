"""Nothing that was released is broken: buf compares the protos with the image of the last release."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

PROTOS = Path(__file__).resolve().parents[2] / "protos"
RELEASED = PROTOS / "released" / "v1.binpb"
BUF = Path(sys.executable).parent / "buf"


def breaks(protos: Path) -> str:
    """Return what buf finds, empty when nothing is broken."""
    done = subprocess.run([BUF, "breaking", protos, "--against", RELEASED], capture_output=True, text=True, check=False)
    assert not done.stderr
    assert bool(done.returncode) == bool(done.stdout)
    return done.stdout


def test_nothing_released_is_broken() -> None:
    assert breaks(PROTOS) == ""


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "complaint"),
    [
        ("retrieval_service", r"int32 limit = 4;", "int64 limit = 4;", 'on message "RetrieveRequest" changed type'),
        ("retrieval_service", r"int32 limit = 4;", "int32 limit = 40;", 'field "4" with name "limit"'),
        ("retrieval_service", r"int32 limit = 4;", "int32 most = 4;", 'changed name from "limit" to "most"'),
        ("context", r"LEVEL_DETAIL = 3;", "LEVEL_TEXT = 3;", 'changed name from "LEVEL_DETAIL" to "LEVEL_TEXT"'),
        ("context_service", r"rpc GetContext\((\w+)\)", r"rpc ReadContext(\1)", 'RPC "GetContext"'),
    ],
)
def test_what_clients_would_notice_is_refused(
    tmp_path: Path, file: str, pattern: str, replacement: str, complaint: str
) -> None:
    protos = tmp_path / "protos"
    shutil.copytree(PROTOS, protos)
    path = protos / "viking" / "v1" / f"{file}.proto"
    changed, n_changed = re.subn(pattern, replacement, path.read_text("utf-8"), count=1)
    assert n_changed
    path.write_text(changed, "utf-8")
    assert complaint in breaks(protos)


def test_the_image_holds_every_service() -> None:
    image = descriptor_pb2.FileDescriptorSet.FromString(RELEASED.read_bytes())
    services = {f"{file.package}.{service.name}" for file in image.file for service in file.service}
    assert services == {f"viking.v1.{name}Service" for name in ("Retrieval", "Context", "Admin")}
