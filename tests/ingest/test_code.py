"""Source code: definitions with what they say about themselves, and no line is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viking_rpc
from viking_rpc.ingest.code import Definition, find_definitions, split_code
from viking_rpc.ingest.section import name_sections

PYTHON = '''"""What the module is for."""
import re

CONSTANT = 1

# Why it exists.
@decorated
def first(a):
    """Do the first thing."""
    return a

class Second:
    """Hold things."""

    x = 1

    def method(self):
        return "\\d"

if __name__ == "__main__":
    first(1)
'''


def outline(definitions: list[Definition] | tuple[Definition, ...]) -> list[Any]:
    return [(found.name, found.doc, outline(found.inner)) for found in definitions]


def test_python_definitions() -> None:
    assert outline(find_definitions(PYTHON, "python")) == [
        ("first", "Do the first thing.", []),
        ("Second", "Hold things.", [("Second.method", "", [])]),
    ]


def test_overloads_are_one_definition() -> None:
    source = "@overload\ndef f(a: int): ...\n@overload\ndef f(a: str): ...\ndef f(a): return a\n\ndef g(): ...\n"
    assert find_definitions(source, "python") == [Definition("f", "", 0, 5), Definition("g", "", 6, 7)]


def test_python_splits_without_losing_a_line() -> None:
    section = split_code("m.py", PYTHON, "python", 80)
    assert section.doc == "What the module is for."
    assert "".join(leaf.text for leaf in section.leaves()).split() == PYTHON.split()
    assert name_sections(section.children, ".py") == (
        "00-introduction.py",
        "01-first",
        "02-Second",
        "03-top.py",
    )


@pytest.mark.parametrize(
    ("language", "source", "expected"),
    [
        ("go", "package x\n\n// Serve answers.\nfunc (s *Server) Serve() {}\n\ntype T struct{}\n",
         [("Server.Serve", "Serve answers.", []), ("T", "", [])]),
        ("java", "package a;\n/** Holds. */\npublic class A {\n  /** Does. */\n  void b() {}\n}\n",
         [("A", "Holds.", [("A.b", "Does.", [])])]),
        ("javascript", "// Says hi.\nexport function f() {}\nconst g = () => 1;\nlet n = 1;\n",
         [("f", "Says hi.", []), ("g", "", [])]),
        ("typescript", "export interface A {}\nexport abstract class B {\n  m() {}\n}\nnamespace N {\n  function z() {}\n}\n",
         [("A", "", []), ("B", "", [("B.m", "", [])]), ("N", "", [("N.z", "", [])])]),
        ("tsx", "export const App = () => <div/>;\n", [("App", "", [])]),
        ("c", "#ifndef X\n#define X\n/* Entry. */\nint *main(void) { return 0; }\nstruct s { int a; };\n#endif\n",
         [("main", "Entry.", []), ("s", "", [])]),
        ("cpp", "namespace n {\nclass A {\n  void q() {}\n};\n}\ntemplate <class T> T f(T a) {}\nvoid A::b() {}\n",
         [("n", "", [("n.A", "", [("n.A.q", "", [])])]), ("f", "", []), ("A::b", "", [])]),
        ("rust", "/// A thing.\n#[derive(Debug)]\npub struct A;\nimpl A {\n    fn new() {}\n}\nimpl Show for A {\n    fn x() {}\n}\n",
         [("A", "A thing.", [("A.new", "", [])]), ("Show for A", "", [("Show for A.x", "", [])])]),
        ("ruby", "# Keeps.\nclass A\n  def x\n  end\nend\n", [("A", "Keeps.", [("A.x", "", [])])]),
        ("csharp", "namespace N {\n  class A {\n    void M() {}\n  }\n}\n", [("N", "", [("N.A", "", [("N.A.M", "", [])])])]),
    ],
)  # fmt: skip
def test_other_languages(language: str, source: str, expected: list[object]) -> None:
    assert outline(find_definitions(source, language)) == expected


@pytest.mark.parametrize(
    ("language", "source", "doc"),
    [
        ("go", "// Copyright 2026 X.\n\n// Package x answers.\npackage x\n", "Package x answers."),
        ("java", "/* SPDX: MIT */\n/** Holds. */\nclass A {}\n", "Holds."),
        ("c", "#include <x.h>\nint main(void) { return 0; }\nint other(void);\n", "Defines main."),
        ("python", "def a(): ...\nclass B: ...\n", "Defines a, B."),
        ("rust", "//! Knows all.\nfn a() {}\n", "Knows all."),
        ("cobol", "* a comment\n", ""),
    ],
)
def test_what_a_file_says_about_itself(language: str, source: str, doc: str) -> None:
    assert split_code("x", source, language).doc == doc


@pytest.mark.parametrize("language", ["python", "go", "cpp", "typescript", "rust", "cobol"])
@pytest.mark.parametrize("source", ["def broken(:\n\n  x = = 1\n\n" * 9, "}}}{{{ \u4f60\n\n" * 20, "\ufffd\n\n" * 99])
def test_code_that_does_not_parse_is_cut_as_text(language: str, source: str) -> None:
    section = split_code("x", source, language, 60)
    leaves = [leaf.text for leaf in section.leaves()]
    assert "".join(leaves).split() == source.split()
    assert max(map(len, leaves)) <= 60


@pytest.mark.parametrize("path", sorted(Path(viking_rpc.__file__).parent.glob("*/*.py")), ids=lambda path: path.name)
def test_our_own_sources_keep_every_line(path: Path) -> None:
    source = path.read_text()
    leaves = [leaf.text for leaf in split_code(path.name, source, "python", 400).leaves()]
    kept = [line for leaf in leaves for line in leaf.split("\n") if line.strip()]
    assert "".join(kept) == "".join(line for line in source.split("\n") if line.strip())
