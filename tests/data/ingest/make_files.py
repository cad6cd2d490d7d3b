"""Write the binary files of this folder; run once, the files are committed: `python tests/data/ingest/make_files.py`."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pypdf

HERE = Path(__file__).parent
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def make_pdf(pages: list[str]) -> bytes:
    """Make a PDF with one line of text per page line, in Helvetica, with nothing but the standard library."""
    n_pages = len(pages)
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(n_pages))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * i} 0 R >>"
        )
        shown = "\n".join(f"({line}) Tj T*" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 72 770 Td\n{shown}\nET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()


def make_docx(body: str) -> bytes:
    """Make the smallest DOCX that holds a body."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {
            "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Override PartName="/word/document.xml" ContentType='
            '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
            "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
            ' Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>',
        }.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            archive.writestr(info, text)
    return buffer.getvalue()


def _paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def main() -> None:
    """Write every file."""
    plain = make_pdf(["Pump maintenance\nOpen the valve slowly.", "Spare parts\nOrder seals by number 4711."])
    writer = pypdf.PdfWriter()
    writer.append(io.BytesIO(plain))
    chapter = writer.add_outline_item(title="Maintenance", page_number=0)
    writer.add_outline_item(title="Parts", page_number=1, parent=chapter)
    writer.add_metadata({"/Title": "Pump manual"})
    writer.write(HERE / "manual.pdf")
    locked = pypdf.PdfWriter()
    locked.append(io.BytesIO(plain))
    locked.encrypt("secret", algorithm="RC4-128")
    locked.write(HERE / "locked.pdf")
    scanned = pypdf.PdfWriter()
    scanned.add_blank_page(595, 842)
    scanned.write(HERE / "scanned.pdf")
    (HERE / "broken.pdf").write_bytes(b"%PDF-1.4\nthis is no PDF at all\n")
    table = (
        "<w:tbl><w:tr><w:tc>" + _paragraph("Name") + "</w:tc><w:tc>" + _paragraph("Use") + "</w:tc></w:tr>"
        "<w:tr><w:tc>" + _paragraph("Seal") + "</w:tc><w:tc>" + _paragraph("Keeps water out") + "</w:tc></w:tr></w:tbl>"
    )
    parts = [
        _paragraph("Release notes", "Heading1"),
        _paragraph("All of it is new."),
        _paragraph("Fixes", "Heading2"),
        table,
    ]
    (HERE / "notes.docx").write_bytes(make_docx("".join(parts)))
    (HERE / "broken.docx").write_bytes(b"PK\x03\x04 and then nothing")


if __name__ == "__main__":
    main()
