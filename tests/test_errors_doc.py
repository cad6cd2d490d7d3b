"""docs/errors.md names every reason that the code has, of the right kind and with the right code, and no other."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from viking_rpc import errors
from viking_rpc.pb.v1 import retrieval_service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parent.parent
REASON: Final = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
#: What services are called by whose names some reasons begin (`adapters/endpoint.py`).
SERVICES: Final = ("EMBEDDER", "RERANKER", "PLANNER")
#: Upper-case constants that are no reasons: names of environment variables, of signals, of what an operating system has.
NOT_REASONS: Final = re.compile(
    r"(VIKING|XDG|SC|OMP|NUMBA|SQLITE_(?!TOO)|TLS_C|SIG)_?\w*|KEY_FILE|CACHE_DIR|CHECK_KERNELS|CREATE_NEW\w*"
)
#: Codes that are written down as such, and are reasons only where the tables say so.
CODES: Final = frozenset(
    kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.VikingError)
) | {"UNKNOWN", "OK", "CANCELLED"}


@dataclass
class Used:
    """Where the code has a reason."""

    codes_of: dict[str, set[str]] = field(default_factory=dict)
    violations: set[str] = field(default_factory=set)
    warnings: set[str] = field(default_factory=set)
    skips: set[str] = field(default_factory=set)
    anywhere: set[str] = field(default_factory=set)


@cache
def tables() -> dict[str, dict[str, list[str]]]:
    """Return, by heading, the rows by reason."""
    found: dict[str, dict[str, list[str]]] = {}
    rows: dict[str, list[str]] = {}
    for line in (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            rows = found.setdefault(line[3:], {})
        elif line.startswith("| `"):
            name, *rest = (cell.strip() for cell in line.strip("|").split("|"))
            assert name.strip("`") not in rows, f"{name} has two rows"
            rows[name.strip("`")] = rest
    return found


@cache
def used() -> Used:
    """Read the package."""
    paths = [path for path in sorted((ROOT / "viking_rpc").rglob("*.py")) if "pb" not in path.parts]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    code_of = {
        name: kind.code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.VikingError)
    }
    constants: dict[str, str] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in code_of:
                for base in node.bases:
                    if isinstance(base, ast.Name) and base.id in code_of:
                        code_of[node.name] = code_of[base.id]
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    constants[target.id] = node.value.value
    result = Used()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and REASON.fullmatch(node.value):
                result.anywhere.add(node.value)
            elif isinstance(node, ast.Call):
                _note(node, code_of, constants, result)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
                result.anywhere.update(_texts(node.value, constants))
    result.anywhere |= {*result.codes_of, *result.violations, *result.warnings, *result.skips}
    return result


def _note(call: ast.Call, code_of: dict[str, str], constants: dict[str, str], result: Used) -> None:
    """Note the reasons that a call is made with."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]

    def at(place: int) -> set[str]:
        named = [word.value for word in call.keywords if word.arg == "reason"]
        given = named or call.args[place : place + 1]
        return {reason for node in given for reason in _texts(node, constants)}

    if last in code_of:
        for reason in at(0):
            result.codes_of.setdefault(reason, set()).add(code_of[last])
    elif last in {"Violation", "FieldViolation"}:
        result.violations |= at(2)
    elif last in {"AnswerWarning", "Warning"} or name.endswith("warnings.add"):
        result.warnings |= at(0)
    elif last == "Skip":
        result.skips |= at(1)
    elif name.endswith("UnreadableFileError.because"):
        result.skips |= at(0)


def _texts(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """Yield the texts that an expression can be, as far as that can be read."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, constants)
        yield from _texts(node.orelse, constants)
    elif isinstance(node, ast.Name) and node.id in constants:
        yield constants[node.id]
    elif isinstance(node, ast.JoinedStr) and "service" in ast.unparse(node):
        end = ast.unparse(node.values[-1]).strip("'")
        yield from (f"{service}{end}" for service in SERVICES)


def test_the_code_can_be_read() -> None:
    """Else every other test here would pass for nothing."""
    found = used()
    assert len(found.codes_of) > 60
    assert len(found.violations) > 35
    assert len(found.warnings) > 10
    assert found.codes_of["EMBED_TIMEOUT"] == {"DEADLINE_EXCEEDED", "UNAVAILABLE"}
    assert "RERANKER_BAD_ANSWER" in found.codes_of
    assert "CONTRADICTION" in found.violations


def test_every_error_has_a_row_with_its_codes() -> None:
    rows = {**tables()["Of starting, and of the command line"], **tables()["Errors"]}
    both = tables()["Of starting, and of the command line"].keys() & tables()["Errors"].keys()
    assert not both
    missing = used().codes_of.keys() - rows.keys()
    assert not missing
    told = {reason: {code.strip() for code in rows[reason][0].split(",")} for reason in used().codes_of}
    assert {reason: codes for reason, codes in used().codes_of.items() if not codes <= told[reason]} == {}


@pytest.mark.parametrize(
    ("heading", "kind"),
    [("Violations", "violations"), ("Warnings", "warnings"), ("What an import leaves out", "skips")],
)
def test_every_reason_of_a_kind_has_a_row(heading: str, kind: str) -> None:
    assert getattr(used(), kind) - tables()[heading].keys() == set()


def test_no_upper_case_constant_is_a_reason_without_a_row() -> None:
    known = {reason for rows in tables().values() for reason in rows}
    left = {name for name in used().anywhere - known - CODES if not NOT_REASONS.fullmatch(name)}
    assert left == set()


def test_no_row_is_left_of_a_reason_that_is_gone() -> None:
    in_code = used().anywhere | {"INTERNAL"} | set(retrieval_service_pb2.EmptyReason.keys())
    for heading, rows in tables().items():
        assert rows.keys() - in_code == set(), heading


def test_every_empty_reason_has_a_row() -> None:
    names = set(retrieval_service_pb2.EmptyReason.keys()) - {"EMPTY_REASON_UNSPECIFIED"}
    assert set(tables()["Why an answer is empty"]) == names


def test_rows_are_whole() -> None:
    for heading, rows in tables().items():
        assert len({len(cells) for cells in rows.values()}) == 1, heading
        assert all(all(cells) for cells in rows.values()), heading
    for reason, (code, _, _, retry) in tables()["Errors"].items():
        codes = {one.strip() for one in code.split(",")}
        assert codes <= CODES
        assert retry in {"yes", "no"}
        assert (retry == "yes") >= ("UNAVAILABLE" in codes), reason
