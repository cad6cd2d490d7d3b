"""A Go program, with stubs by protoc-gen-go and protoc-gen-go-grpc, against a real server."""

from __future__ import annotations

import pytest

from tests.polyglot.programs import ProgramTests, Seen, run_program
from tests.polyglot.toolchains import build_go


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> Seen:
    program = build_go() / "bin" / "polyglot"
    return run_program([str(program)], request.getfixturevalue("address"))


class TestGo(ProgramTests):
    root = "viking://resources/polyglot-go"
