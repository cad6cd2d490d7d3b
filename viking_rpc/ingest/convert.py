"""Turn a file's bytes into Markdown, plain text or source code, or say why that cannot be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from viking_rpc.errors import InvalidArgumentError
from viking_rpc.ingest.split import first_heading

if TYPE_CHECKING:
    from collections.abc import Callable

#: Languages by file ending; every other ending is plain text, if it is text at all.
LANGUAGES = {
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".mkd": "markdown",
    ".rst": "rst", ".rest": "rst",
    ".html": "html", ".htm": "html", ".xhtml": "html",
    ".pdf": "pdf", ".docx": "docx",
    ".py": "python", ".pyi": "python", ".go": "go", ".java": "java", ".rs": "rust", ".rb": "ruby", ".cs": "csharp",
    ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascript",
    ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "tsx",
    ".c": "c", ".h": "cpp", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp",
}  # fmt: skip
#: Languages that are converted to Markdown.
_DOCUMENTS = frozenset({"rst", "html", "pdf", "docx"})

_SNIFFED_BYTES = 8_192  # a NUL this early means binary, as git decides
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"),
         (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))  # fmt: skip
_DETECTED_BYTES = 65_536
_WESTERN = "cp1252"
_UNWANTED = re.compile("[\0\ud800-\udfff]")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML_MATTER = re.compile(r"\+\+\+[ \t]*\n(.*?\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)


class UnreadableFileError(InvalidArgumentError):
    """A file has no text that can be imported; the reason says why."""

    @classmethod
    def because(cls, reason: str, message: str) -> UnreadableFileError:
        """Build the error from its stable reason and a sentence."""
        return cls(reason=reason, message=message)


@dataclass(frozen=True, slots=True)
class Converted:
    """The text of a file: `language` is `markdown`, `text` or a programming language; line ends are `\\n`.

    `doc` is what the source says about itself in its settings (a front matter's description); it is in `text` too.
    """

    title: str
    text: str
    language: str
    doc: str = ""


def convert(name: str, data: bytes) -> Converted:
    """Convert one file.

    Args:
        name: its name; the ending decides the format.
        data: its whole content.

    Returns:
        Its title (the name without ending when it has none) and text, never blank.

    Raises:
        UnreadableFileError: reason EMPTY_FILE, BINARY_FILE, ENCRYPTED_FILE, BROKEN_FILE or NO_TEXT.
    """
    language = LANGUAGES.get(PurePath(name).suffix.lower(), "text")
    if not data.strip():
        raise UnreadableFileError.because("EMPTY_FILE", "the file is empty")
    if language in _DOCUMENTS:
        title, text = _convert_document(language, data)
        converted = Converted(title, clean_text(text), "markdown")
    elif language == "markdown":
        converted = _convert_markdown(decode(data))
    else:
        converted = Converted("", decode(data), language)
    if not converted.text.strip():
        raise UnreadableFileError.because(
            "NO_TEXT", "the file holds no text (it may hold scanned pages or only settings)"
        )
    title = converted.title
    if not title and converted.language == "markdown":
        title = first_heading(converted.text)
    if not title:
        title = PurePath(name).stem if converted.language in ("markdown", "text") else name
    return Converted(" ".join(clean_text(title).split()), converted.text, converted.language, converted.doc)


def decode(data: bytes) -> str:
    """Decode bytes: by byte order mark, as UTF-8, else by what they look like.

    Args:
        data: the content of a text file.

    Returns:
        The text with `\\n` line ends.

    Raises:
        UnreadableFileError: reason BINARY_FILE.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return clean_text(data.decode(encoding))
            except UnicodeDecodeError:
                break
    if b"\0" in data[:_SNIFFED_BYTES]:
        raise UnreadableFileError.because("BINARY_FILE", "the file is binary")
    try:
        return clean_text(data.decode("utf-8"))
    except UnicodeDecodeError:
        return clean_text(_decode_unknown(data))


def clean_text(text: str) -> str:
    """Make every line end `\\n`, and replace NUL and unpaired surrogates, which no store takes."""
    return _UNWANTED.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def _decode_unknown(data: bytes) -> str:
    from charset_normalizer import from_bytes

    matches = from_bytes(data[:_DETECTED_BYTES])
    best = matches.best()
    if best is None:
        raise UnreadableFileError.because("BINARY_FILE", "the file is binary, or text in no known encoding")
    # Short texts fit several encodings equally well; the Western one is by far the most common.
    ties = (match for match in matches if (match.chaos, match.coherence) == (best.chaos, best.coherence))
    is_western = any(_WESTERN in match.could_be_from_charset for match in ties)
    return data.decode(_WESTERN if is_western else best.encoding, "replace")


def _convert_markdown(text: str) -> Converted:
    """Take the front matter off: its title and description are kept, the rest is a site generator's settings."""
    found = _FRONT_MATTER.match(text) or _TOML_MATTER.match(text)
    if not found:
        return Converted("", text, "markdown")
    title, doc = _setting(found[1], "title"), _setting(found[1], "description")
    body = text[found.end() :].lstrip("\n")
    if doc and doc not in body:
        body = f"{doc}\n\n{body}"
    return Converted(title, body or title, "markdown", doc)


def _setting(matter: str, key: str) -> str:
    """Read one text setting of YAML or TOML front matter: plain, quoted, or a folded block."""
    found = re.search(rf"^{key}[ \t]*[:=][ \t]*(.*(?:\n[ \t]+.*)*)", matter, re.MULTILINE | re.IGNORECASE)
    if not found:
        return ""
    value = " ".join(found[1].split())
    value = re.sub(r"^[>|][+-]?\s*", "", value)
    quoted = re.fullmatch(r"""(["'])(.*)\1""", value)
    return quoted[2].replace(f"\\{quoted[1]}", quoted[1]) if quoted else value


def _convert_document(language: str, data: bytes) -> tuple[str, str]:
    from viking_rpc.ingest import documents

    converters: dict[str, Callable[[bytes], tuple[str, str]]] = {
        "rst": lambda data: documents.convert_rst(decode(data)),
        "html": lambda data: documents.convert_html(decode(data)),
        "pdf": documents.convert_pdf,
        "docx": documents.convert_docx,
    }
    try:
        return converters[language](data)
    except UnreadableFileError:
        raise
    except Exception as error:  # a parser may raise anything on a broken file, and one file never stops an import
        message = f"the {language} parser failed: {type(error).__name__}: {error}".strip(": ")
        raise UnreadableFileError.because("BROKEN_FILE", message[:300]) from error
