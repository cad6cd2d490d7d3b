"""Split long source code along its definitions: Python by its own parser, other languages by tree-sitter."""

from __future__ import annotations

import ast
import importlib
import re
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from viking_rpc.ingest.section import Section, cut_section, split_lines
from viking_rpc.ingest.split import DEFAULT_MAX_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import tree_sitter

#: Language -> (grammar module, the function in it that gives the grammar).
_GRAMMARS = {
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
#: What a definition's node type ends with, in all these grammars.
_DEFINITION = re.compile(
    r"(?:^|_)(?:class|interface|enum|struct|union|trait|impl|mod|module|namespace|function|method|constructor|type|"
    r"type_alias|record|object|macro|template|singleton_method|annotation_type|delegate|property|internal_module)"
    r"(?:_(?:declaration|definition|specifier|item|signature))?$"
)
_WRAPPERS = frozenset({"export_statement", "ambient_declaration", "template_declaration", "linkage_specification"})
_TRANSPARENT = frozenset({"preproc_ifdef", "preproc_if", "preproc_else", "declaration_list"})
_ASSIGNED = frozenset({"lexical_declaration", "variable_declaration"})
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "function", "class"})
_CALLABLE = re.compile(r"function|method|constructor")
_COMMENT = re.compile(r"comment|attribute_item|decorator")
_COMMENT_MARKS = re.compile(r"^\s*(?:/\*+|\*+/|\*|//+!?|#+!?|--+)[ \t]?|\s*\*+/\s*$", re.MULTILINE)
_HEAD = re.compile(
    r"\s*(/\*[\s\S]*?\*/|(?:[ \t]*(?://|#(?![ \t]*(?:!|include|define|undef|if|pragma|frozen_string)))(?:.*\n))+)"
)
_LICENCE = re.compile(r"copyright|licen[cs]e|spdx", re.IGNORECASE)
_MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class Definition:
    """A named piece of source code: the lines `lo` to `hi` (exclusive), its leading comment included."""

    name: str
    doc: str
    lo: int
    hi: int
    inner: tuple[Definition, ...] = field(default=())


def split_code(title: str, text: str, language: str, max_chars: int = DEFAULT_MAX_CHARS) -> Section:
    """Split source code along its definitions; a definition that is still too long along its inner ones.

    What lies between definitions becomes sections of its own, so that no line is lost. Code that does not parse, or
    is of a language without a parser, is cut between its paragraphs.

    Args:
        title: the title of the whole, as a rule the file's name.
        text: the source with `\\n` line ends.
        language: a key of the table above or `python`; any other is plain text.
        max_chars: the most characters of a leaf.

    Returns:
        One section; its leaves put together hold every line that is not blank, in order.
    """
    found = find_definitions(text, language)
    doc = describe_code(text, language)
    if found and not doc:
        doc = f"Defines {', '.join(definition.name for definition in found[:_MAX_NAMED])}."
    if len(text) <= max_chars:
        return Section(title, text, doc)
    lines = split_lines(text)
    return _split(Definition("", doc, 0, len(lines), tuple(found)), title, lines, max_chars)


def find_definitions(text: str, language: str) -> list[Definition]:
    """Find the top-level definitions of source code, with those inside; none where it cannot be parsed."""
    if language == "python":
        return _find_python(text)
    parser = _parser(language)
    if parser is None:
        return []
    return list(_merge(_find_nodes(parser.parse(text.encode("utf-8", "replace")).root_node, 0, "")))


def describe_code(text: str, language: str) -> str:
    """Take what a source file says about itself: its docstring, or the comment at its head that is no licence."""
    if language == "python":
        tree = _parse_python(text)
        return (ast.get_docstring(tree) or "") if tree else ""
    if language not in _GRAMMARS:
        return ""
    head = _HEAD.match(text)
    while head and _LICENCE.search(head[1]):
        head = _HEAD.match(text, head.end())
    return _strip_comment(head[1]) if head else ""


def _split(whole: Definition, title: str, lines: Sequence[str], limit: int, slug: str = "") -> Section:
    text = "".join(lines[whole.lo : whole.hi])
    if len(text) <= limit or not whole.inner:
        return cut_section(title, text, limit, doc=whole.doc, slug=slug)
    children: list[Section] = []
    end = whole.lo
    for part in (*whole.inner, Definition("", "", whole.hi, whole.hi)):
        between = "".join(lines[end : part.lo])
        if between.strip():
            is_lead = end == whole.lo
            label = title if is_lead else f"{title} (top level)"
            doc = whole.doc if is_lead else ""
            children.append(cut_section(label, between, limit, doc=doc, slug="" if is_lead else "top", is_lead=is_lead))
        if part.name:
            children.append(_split(part, part.name, lines, limit, part.name.removeprefix(f"{whole.name}.")))
        end = max(end, part.hi)
    return Section(title, "", whole.doc, tuple(children), slug)


def _merge(definitions: Iterable[Definition]) -> tuple[Definition, ...]:
    """Join neighbours of one name: overloads, and what a language writes beside a type, as Rust's `impl`."""
    merged: list[Definition] = []
    for found in definitions:
        last = merged[-1] if merged else None
        if last and last.name == found.name:
            merged[-1] = Definition(last.name, last.doc or found.doc, last.lo, found.hi, last.inner + found.inner)
        else:
            merged.append(found)
    return tuple(merged)


def _parse_python(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # bad escapes in other people's code
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _find_python(text: str) -> list[Definition]:
    tree = _parse_python(text)
    return list(_merge(_python_definitions(tree.body, split_lines(text), 0, ""))) if tree else []


def _python_definitions(body: Sequence[ast.stmt], lines: Sequence[str], lo: int, outer: str) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            while start > lo and lines[start - 1].lstrip().startswith("#"):
                start -= 1
            name = f"{outer}{node.name}"
            inner: tuple[Definition, ...] = ()
            if isinstance(node, ast.ClassDef):
                inner = _merge(_python_definitions(node.body, lines, node.lineno, f"{name}."))
            if start >= lo:  # two statements on one line stay with the first
                yield Definition(name, ast.get_docstring(node) or "", start, node.end_lineno or start + 1, inner)
        lo = max(lo, node.end_lineno or lo)


@cache
def _parser(language: str) -> tree_sitter.Parser | None:
    """Make the parser of a language; None when it is unknown or its grammar is not installed."""
    if language not in _GRAMMARS:
        return None
    module, function = _GRAMMARS[language]
    try:
        library: Any = importlib.import_module("tree_sitter")
        grammar: Any = importlib.import_module(module)
    except ImportError:
        return None
    return cast("tree_sitter.Parser", library.Parser(library.Language(getattr(grammar, function)())))


def _find_nodes(container: tree_sitter.Node, end: int, outer: str) -> Iterator[Definition]:
    """Yield the definitions in a node that begin at line `end` or later, each on lines of its own."""
    comments: list[tree_sitter.Node] = []
    for node in container.named_children:
        if _COMMENT.search(node.type):
            if node.start_point[0] >= end:
                comments.append(node)
            continue
        if node.type in _TRANSPARENT:  # include guards: what they hold is top level
            yield from _find_nodes(node, max(end, node.start_point[0] + 1), outer)
        name, target = _name_of(node)
        if name and node.start_point[0] >= end:
            lo = _lead_start(comments, node)
            hi = _end_line(node)
            doc = "\n".join(_text_of(comment) for comment in comments if comment.start_point[0] >= lo)
            body = target.child_by_field_name("body")
            is_container = body is not None and not _CALLABLE.search(target.type)
            inner = (
                _merge(_find_nodes(body, node.start_point[0] + 1, f"{outer}{name}.")) if body and is_container else ()
            )
            yield Definition(f"{outer}{name}", _strip_comment(doc), lo, hi, inner)
        end = max(end, _end_line(node))
        comments = []


def _name_of(node: tree_sitter.Node) -> tuple[str, tree_sitter.Node]:
    """Find the name of a definition and the node that has its body; an empty name for all else."""
    if node.type in _WRAPPERS:
        inner = node.child_by_field_name("declaration") or node.child_by_field_name("body")
        candidates = [inner] if inner else node.named_children
        return next((found for child in candidates if (found := _name_of(child))[0]), ("", node))
    if node.type == "expression_statement" and node.named_children:  # a TypeScript namespace
        return _name_of(node.named_children[0]) if node.named_children[0].type == "internal_module" else ("", node)
    if node.type in _ASSIGNED and node.named_children:  # const f = () => ...
        declarator = node.named_children[0]
        value = declarator.child_by_field_name("value")
        is_function = value is not None and value.type in _FUNCTIONS
        return (_field_text(declarator, "name"), value) if is_function and value else ("", node)
    if not _DEFINITION.search(node.type):
        return "", node
    if node.type == "impl_item":
        trait = _field_text(node, "trait")
        return (f"{trait} for " if trait else "") + _field_text(node, "type"), node
    if node.type == "type_declaration":  # Go: the names are in its specs
        return next((name for child in node.named_children if (name := _field_text(child, "name"))), ""), node
    receiver = _field_text(node, "receiver")  # Go: func (s *Server) Serve()
    owner = re.search(r"(\w+)(?:\[.*\])?\s*\)$", receiver)
    name = _field_text(node, "name") or _declared(node)
    return (f"{owner[1]}.{name}" if owner and name else name), node


def _declared(node: tree_sitter.Node) -> str:
    """Find the name inside C declarators: `int *f(int a)` declares `f`."""
    inner = node.child_by_field_name("declarator")
    while inner is not None:
        deeper = inner.child_by_field_name("declarator")
        if deeper is None:
            deeper = next((child for child in inner.named_children if child.type.endswith("declarator")), None)
        if deeper is None:
            return _text_of(inner)
        inner = deeper
    return ""


def _lead_start(comments: Sequence[tree_sitter.Node], node: tree_sitter.Node) -> int:
    """Find the first line of the comments that touch a definition from above."""
    lo = node.start_point[0]
    for comment in reversed(comments):
        if _end_line(comment) < lo:
            break
        lo = comment.start_point[0]
    return lo


def _end_line(node: tree_sitter.Node) -> int:
    """Return the line after a node; one that ends with a line feed ends at the start of the next line."""
    row, column = node.end_point
    return row + (1 if column else 0)


def _field_text(node: tree_sitter.Node, name: str) -> str:
    child = node.child_by_field_name(name)
    return _text_of(child) if child is not None else ""


def _text_of(node: tree_sitter.Node) -> str:
    return node.text.decode("utf-8", "replace") if node.text else ""


def _strip_comment(comment: str) -> str:
    comment = "\n".join(line for line in comment.splitlines() if not line.lstrip().startswith(("#[", "@")))
    return "\n".join(line.strip() for line in _COMMENT_MARKS.sub("", comment).splitlines()).strip()
