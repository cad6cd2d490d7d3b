"""A TypeScript program on Node, with stubs by ts-proto for @grpc/grpc-js, against a real server."""

from __future__ import annotations

import pytest

from tests.polyglot.programs import ProgramTests, Seen, run_program
from tests.polyglot.toolchains import build_typescript


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> Seen:
    program = build_typescript() / "dist" / "main.js"
    return run_program(["node", str(program)], request.getfixturevalue("address"))


class TestTypeScript(ProgramTests):
    root = "viking://resources/polyglot-typescript"
