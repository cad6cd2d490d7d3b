"""Convert reStructuredText, HTML, PDF and DOCX to Markdown with the libraries that know them, loaded on first use."""

from __future__ import annotations

import io
import logging
import re
import zipfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOT_CONTENT = ["script", "style", "noscript", "template", "nav", "iframe", "svg", "form", "button"]
_SELF_CLOSING = (["li"], ["p"], ["dt", "dd"], ["td", "th"], ["tr"])
_MAX_UNPACKED_BYTES = 200_000_000  # what a small DOCX may claim to hold; more is a decompression bomb
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def convert_html(html: str) -> tuple[str, str]:
    """Convert HTML to its title and Markdown; scripts, styles, navigation and images are left out."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup(_NOT_CONTENT):
        tag.decompose()
    _unnest(soup)
    body: Any = soup.body or soup
    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        strip=["img", "title"],
        escape_misc=False,
        escape_asterisks=False,
        escape_underscores=False,
    )
    text = _BLANK_LINES.sub("\n\n", converter.convert_soup(body)).strip() + "\n"
    heading = body.find("h1")
    return (heading.get_text(" ", strip=True) if heading else "") or title, text


def _unnest(soup: Any) -> None:  # bs4 is imported late
    """Close the tags that HTML lets authors leave open: the parser puts `<li>b` inside the `<li>` before it."""
    for group in _SELF_CLOSING:
        for tag in soup(group):
            if tag.parent is not None and tag.parent.name in group:
                tag.parent.insert_after(tag)


def convert_docx(data: bytes) -> tuple[str, str]:
    """Convert DOCX to its title and Markdown, by way of HTML; images are left out."""
    import mammoth

    from viking_rpc.ingest.convert import UnreadableFileError

    if data.startswith(b"\xd0\xcf\x11\xe0"):  # an OLE container: what Office makes of an encrypted DOCX
        raise UnreadableFileError.because("ENCRYPTED_FILE", "the file is encrypted or an old Word file")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(info.file_size for info in archive.infolist()) > _MAX_UNPACKED_BYTES:
            raise UnreadableFileError.because("FILE_TOO_LARGE", "the file unpacks to more than 200 MB")
    without_images = mammoth.images.img_element(lambda _: {"src": ""})
    return convert_html(mammoth.convert_to_html(io.BytesIO(data), convert_image=without_images).value)


def convert_pdf(data: bytes) -> tuple[str, str]:
    """Convert PDF to its title and text; its bookmarks become headings before the page that they point to."""
    import pypdf

    from viking_rpc.ingest.convert import UnreadableFileError

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it reports every repair that it makes
    reader = pypdf.PdfReader(io.BytesIO(data))
    try:
        is_closed = reader.is_encrypted and not reader.decrypt("")
    except pypdf.errors.DependencyError:  # AES needs a library that is not worth carrying for empty passwords
        is_closed = True
    if is_closed:
        raise UnreadableFileError.because("ENCRYPTED_FILE", "the file is encrypted")
    headings = _bookmarks(reader)
    pages = []
    for i, page in enumerate(reader.pages):
        text = _HYPHENATED.sub("", page.extract_text()).strip()
        pages.append("\n\n".join([*headings.get(i, ()), text]))
    title = reader.metadata.title if reader.metadata else ""
    return str(title or ""), _BLANK_LINES.sub("\n\n", "\n\n".join(page for page in pages if page)) + "\n"


def _bookmarks(reader: Any) -> dict[int, list[str]]:
    """Collect the outline by page number, as Markdown headings."""
    found: dict[int, list[str]] = {}

    def collect(outline: Iterable[Any], level: int) -> None:
        for entry in outline:
            if isinstance(entry, list):
                collect(entry, level + 1)
            elif (number := reader.get_destination_page_number(entry)) is not None:
                found.setdefault(number, []).append(f"{'#' * min(level, 6)} {' '.join(str(entry.title).split())}")

    collect(reader.outline, 1)
    return found


def convert_rst(source: str) -> tuple[str, str]:
    """Convert reStructuredText to its title and Markdown; what docutils does not know is kept as its text."""
    from viking_rpc.ingest.rst import rst_to_markdown

    return rst_to_markdown(source)
