"""Convert reStructuredText to Markdown: docutils parses, a small writer keeps headings, lists, code and tables."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from docutils import core, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTINGS = {
    "report_level": 5,  # nothing on stderr; what is wrong stays in the tree
    "halt_level": 5,
    "file_insertion_enabled": False,  # a source must not read other files
    "raw_enabled": False,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "_disable_config": True,
    "input_encoding": "unicode",
    "smart_quotes": False,
}
_ROLE = re.compile(r":[\w:+.-]+:`!?~?([^`<]+?)\s*(?:<[^`>]*>)?`")
_DIRECTIVE = re.compile(r"\.\. +(?:\|[^|]+\| +)?([\w:+.-]+):: *(.*)")
_CODE_DIRECTIVES = frozenset({"code-block", "sourcecode", "doctest", "testcode", "literalinclude", "prompt", "tab"})
_OPTION = re.compile(r":[\w-]+:.*")


def rst_to_markdown(source: str) -> tuple[str, str]:
    """Convert one source.

    Args:
        source: reStructuredText; Sphinx roles become their text, unknown directives their arguments and body.

    Returns:
        The first heading ("" when there is none) and the Markdown.
    """
    tree = core.publish_doctree(source, settings_overrides=_SETTINGS)
    heading = next(iter(tree.findall(nodes.title)), None)
    blocks = [block for block in _blocks(tree, 1) if block.strip()]
    return (_inline(heading) if heading else ""), "\n\n".join(blocks) + "\n"


def _blocks(parent: nodes.Element, level: int) -> Iterator[str]:
    for node in parent.children:
        yield from _block(node, level)


def _block(node: nodes.Node, level: int) -> Iterator[str]:
    match node:
        case nodes.section():
            yield from _blocks(node, level + 1)
        case nodes.title():
            marks = "#" * min(max(level - 1, 1), 6)
            yield f"{marks} {_inline(node)}" if isinstance(node.parent, nodes.section) else f"**{_inline(node)}**"
        case nodes.paragraph() | nodes.term() | nodes.rubric() | nodes.caption() | nodes.attribution():
            yield _inline(node)
        case nodes.literal_block() | nodes.doctest_block():
            classes: list[str] = node.get("classes", [])
            language = next((name for name in classes if name != "code"), "")
            yield _fenced(node.astext(), language)
        case nodes.bullet_list() | nodes.enumerated_list():
            yield "\n".join(_items(node, level))
        case nodes.definition_list_item() | nodes.field() | nodes.option_list_item():
            head = node.children[0]
            yield f"**{' '.join(head.astext().split())}**"
            for child in node.children[1:]:
                yield from _block(child, level)
        case nodes.table():
            yield from _blocks_of_type(node, nodes.title, level)
            yield "\n".join(_table_rows(node))
        case nodes.Admonition() if isinstance(node, nodes.Element):
            name = type(node).__name__
            body = "\n\n".join(_blocks(node, level))
            yield body if name == "admonition" else f"**{name.capitalize()}:** {body}"
        case nodes.system_message():
            yield from _unknown(node)
        case nodes.comment() | nodes.substitution_definition() | nodes.target() | nodes.image() | nodes.pending():
            return
        case nodes.Text() | nodes.Inline():
            yield _clean(node.astext())
        case nodes.Element():
            yield from _blocks(node, level)


def _blocks_of_type(node: nodes.Element, kind: type[nodes.Element], level: int) -> Iterator[str]:
    for child in node.children:
        if isinstance(child, kind):
            yield from _block(child, level)


def _items(node: nodes.Element, level: int) -> Iterator[str]:
    start = int(node.get("start", 1))
    for i, item in enumerate(node.children, start):
        mark = "- " if isinstance(node, nodes.bullet_list) else f"{i}. "
        body = "\n\n".join(block for block in _block(item, level) if block.strip())
        yield mark + textwrap.indent(body, " " * len(mark)).lstrip()


def _table_rows(table: nodes.table) -> Iterator[str]:
    for i, row in enumerate(table.findall(nodes.row)):
        cells = [" ".join(_clean(cell.astext()).split()).replace("|", "\\|") for cell in row.children]
        yield f"| {' | '.join(cells)} |"
        if i == 0:
            yield f"|{' --- |' * len(cells)}"


def _unknown(message: nodes.system_message) -> Iterator[str]:
    """Write what docutils refused: the source of a directive that it does not know (Sphinx has many)."""
    for block in message.findall(nodes.literal_block):
        head, _, rest = block.astext().partition("\n")
        found = _DIRECTIVE.match(head.strip())
        if not found:
            continue
        lines = textwrap.dedent(rest).strip("\n").split("\n")
        while lines and _OPTION.fullmatch(lines[0].strip()):
            lines.pop(0)
        body = "\n".join(lines).strip("\n")
        if found[1] == "toctree":  # navigation: the files that it names are imported themselves
            continue
        if found[1] in _CODE_DIRECTIVES:
            yield _fenced(body, found[2])
            continue
        yield _clean(found[2])
        yield _clean(body)


def _inline(node: nodes.Node) -> str:
    parts = []
    for child in getattr(node, "children", ()):
        match child:
            case nodes.literal():
                parts.append(f"`{child.astext()}`")
            case nodes.strong():
                parts.append(f"**{child.astext()}**")
            case nodes.emphasis():
                parts.append(f"*{child.astext()}*")
            case nodes.image():
                parts.append(str(child.get("alt", "")))
            case nodes.system_message():
                continue
            case _:
                parts.append(child.astext())
    return _clean("".join(parts))


def _clean(text: str) -> str:
    return _ROLE.sub(r"\1", text).strip()


def _fenced(text: str, language: str) -> str:
    if not text.strip():
        return ""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
