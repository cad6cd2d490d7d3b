"""Conversion: every format gives its text, and what has none says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from viking_rpc.ingest.convert import LANGUAGES, UnreadableFileError, convert
from viking_rpc.ingest.summarize import lead

FILES = Path(__file__).parents[1] / "data" / "ingest"


def test_pdf_has_the_text_of_all_pages_under_its_bookmarks() -> None:
    converted = convert("manual.pdf", (FILES / "manual.pdf").read_bytes())
    assert converted.title == "Pump manual"
    assert converted.language == "markdown"
    assert converted.text == (
        "# Maintenance\n\nPump maintenance\nOpen the valve slowly.\n\n"
        "## Parts\n\nSpare parts\nOrder seals by number 4711.\n"
    )


def test_docx_keeps_headings_and_tables() -> None:
    converted = convert("notes.docx", (FILES / "notes.docx").read_bytes())
    assert converted.title == "Release notes"
    assert "## Fixes" in converted.text
    assert "| Seal | Keeps water out |" in converted.text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("locked.pdf", "ENCRYPTED_FILE"),
        ("broken.pdf", "BROKEN_FILE"),
        ("broken.docx", "BROKEN_FILE"),
        ("scanned.pdf", "NO_TEXT"),
    ],
)
def test_a_file_without_readable_text_says_why(name: str, reason: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        convert(name, (FILES / name).read_bytes())
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "EMPTY_FILE"),
        (b" \n\t\n", "EMPTY_FILE"),
        (b"text\0with a NUL", "BINARY_FILE"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "BINARY_FILE"),
        (b"\xef\xbb\xbf  ", "NO_TEXT"),
    ],
)
def test_what_is_no_text_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        convert("a.txt", data)
    assert caught.value.reason == reason


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_encodings_are_read(encoding: str) -> None:
    text = "\u4f60\u597d, world\n"
    assert convert("a.txt", text.encode(encoding)).text == text


def test_latin_1_is_recognised() -> None:
    text = (
        "Le caf\u00e9 est ferm\u00e9 pendant l'\u00e9t\u00e9, mais le th\u00e9\u00e2tre reste ouvert \u00e0 la for\u00eat.\n"
        * 3
    )
    assert convert("a.txt", text.encode("latin-1")).text == text


def test_line_ends_and_late_nuls_are_made_storable() -> None:
    data = b"one\r\ntwo\rthree\n" + b"x" * 9_000 + b"\0"
    text = convert("a.txt", data).text
    assert text.startswith("one\ntwo\nthree\n")
    assert text.endswith("x\ufffd")


def test_front_matter_gives_title_and_description() -> None:
    source = (
        '---\ntitle: "The \\"big\\" guide"\ndescription: >\n  How to\n  begin.\nweight: 3\n---\n\n# Other\n\nBody.\n'
    )
    converted = convert("a.md", source.encode())
    assert converted.title == 'The "big" guide'
    assert converted.doc == "How to begin."
    assert converted.text == "How to begin.\n\n# Other\n\nBody.\n"


def test_toml_front_matter_and_a_rule_that_is_none() -> None:
    assert convert("a.md", b"+++\ntitle = 'T'\n+++\nBody").title == "T"
    rule = b"---\n\nNo front matter: the line above is a rule.\n"
    assert convert("a.md", rule).text == rule.decode()


@pytest.mark.parametrize(
    ("name", "source", "title"),
    [
        ("a.md", "text\n\n## `code` and [link](x) *it*\n", "code and link it"),
        ("a.md", "```\n# no heading\n```\n\nSetext\n======\n", "Setext"),
        ("a.md", "# C# basics\n", "C# basics"),
        ("my notes.md", "only text\n", "my notes"),
        ("plain.txt", "# no markdown\n", "plain"),
        ("run.py", "x = 1\n", "run.py"),
    ],
)
def test_titles(name: str, source: str, title: str) -> None:
    assert convert(name, source.encode()).title == title


def test_html_is_markdown_without_scripts_and_navigation() -> None:
    html = (
        b"<html><head><title>Page</title><style>a{}</style></head><body><nav>menu</nav><h1>Head <b>one</b></h1>"
        b"<p>snake_case &amp; more<p>second<ul><li>a<li>b</ul><script>evil()</script></body></html>"
    )
    converted = convert("a.html", html)
    assert converted.title == "Head one"
    assert converted.text == "# Head **one**\n\nsnake_case & more\n\nsecond\n\n- a\n- b\n"


def test_rst_keeps_headings_code_and_what_docutils_does_not_know() -> None:
    source = """
Guide
=====

See :ref:`the label <lab>` and ``code``.

.. toctree::

   other

.. versionadded:: 1.2
   A new thing.

Install
-------

.. code-block:: bash

   pip install it

* one
* two

== ==
A  B
== ==
1  2
== ==
"""
    converted = convert("a.rst", source.encode())
    assert converted.title == "Guide"
    assert converted.text == (
        "# Guide\n\nSee the label and `code`.\n\n1.2\n\nA new thing.\n\n## Install\n\n"
        "```bash\npip install it\n```\n\n- one\n- two\n\n| A | B |\n| --- | --- |\n| 1 | 2 |\n"
    )


def test_rst_cannot_read_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("classified")
    source = f"Text.\n\n.. include:: {tmp_path}/secret\n\n.. literalinclude:: {tmp_path}/secret\n"
    assert "classified" not in convert("a.rst", source.encode()).text


PIECES = st.sampled_from(
    [b"---\n", b"title: x\n", b"# a\n", b"<p>", b"</td><td", b"[[[", b"](", b"`", b"```\n", b".. note::\n\n", b"====\n", b"\xff\xfe",
     b"\0", b"\xe9", b"{{", b"<!--", b"%PDF-1.4\n", b"PK\x03\x04", b"*", b"_", b":a:`", b"|x|", b"\n\n", b"   ", b"word ", b"+--+\n"]
)  # fmt: skip


@settings(deadline=None)
@given(st.sampled_from(sorted(LANGUAGES)), st.lists(PIECES | st.binary(max_size=8), max_size=30).map(b"".join))
@example(".rst", b"====\n====\n")
@example(".html", b"<p>" * 2_000)
def test_any_bytes_are_converted_or_refused(suffix: str, data: bytes) -> None:
    try:
        converted = convert(f"a{suffix}", data)
    except UnreadableFileError as error:
        assert error.reason in {"EMPTY_FILE", "BINARY_FILE", "BROKEN_FILE", "ENCRYPTED_FILE", "NO_TEXT"}
    else:
        assert converted.text.strip()
        assert converted.title
        assert "\n" not in converted.title
        converted.text.encode()
        assert lead(converted.text)
