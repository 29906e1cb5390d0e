"""Each format gives sections with headings, symbols and lines."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from devmem.errors import UnreadableError, install_command
from devmem_stores.file import formats
from devmem_stores.file.chunks import Section
from tests.cases import cases

from .conftest import GUIDE, Folder, found


def read_sections(name: str, data: bytes, encoding: str | None) -> list[Section]:
    return list(formats.read_sections(name, data, encoding))


def lines(section: Section) -> tuple[int, int]:
    return section.numbers[0], section.last or section.numbers[-1]


def test_markdown_has_heading_paths() -> None:
    sections = read_sections("guide.md", GUIDE.encode(), None)
    assert [section.heading for section in sections] == [("Guide",), ("Guide", "Places"), ("Guide", "Care")]
    assert [lines(section) for section in sections] == [(1, 4), (5, 8), (9, 16)]


def test_markdown_with_front_matter_setext_and_a_heading_in_a_fence() -> None:
    text = "---\ntitle: x\n---\n\nTop\n===\n\ntext\n\nSub\n---\n\n```\n# no heading\n```\n"
    sections = read_sections("a.MD", text.encode(), None)
    assert [section.heading for section in sections] == [(), ("Top",), ("Top", "Sub")]
    assert lines(sections[-1]) == (10, 15)


def test_python_is_split_by_definitions() -> None:
    head = '"""Doc."""\nimport os\n\n# why\n@cache\ndef f():\n    pass\n\n'
    source = head + "class A:\n    x = 1\n\n    def g(self):\n        pass\n"
    sections = read_sections("a.py", source.encode(), None)
    assert [(section.symbol, lines(section)) for section in sections] == [
        (None, (1, 3)),
        ("f", (4, 7)),
        ("A", (9, 11)),
        ("A.g", (12, 13)),
    ]


@pytest.mark.parametrize(
    ("name", "source", "symbols"),
    cases("stores_file_formats", "other_code_is_split_by_definitions"),
)
def test_other_code_is_split_by_definitions(name: str, source: str, symbols: list[str | None]) -> None:
    assert [section.symbol for section in read_sections(name, source.encode(), None)] == symbols


def test_csv_and_json_lines_are_split_by_record() -> None:
    table = 'name,note\nAnn,"two\nlines"\nBob,x\n,\n'
    sections = read_sections("a.csv", table.encode(), None)
    assert [(section.text, lines(section)) for section in sections] == [
        ("name: Ann\nnote: two\nlines", (2, 3)),
        ("name: Bob\nnote: x", (4, 4)),
    ]
    records = json.dumps({"who": "Ann", "tags": ["a"], "none": None}) + "\nnot json\n\n"
    sections = read_sections("a.jsonl", records.encode(), None)
    assert [(section.text, lines(section)) for section in sections] == [
        ('who: Ann\ntags: ["a"]', (1, 1)),
        ("not json", (2, 2)),
    ]
    assert read_sections("a.tsv", b"a\tb\n1,2\t3\n", None)[0].text == "a: 1,2\nb: 3"


def test_html_gives_text_and_lines() -> None:
    page = (
        "<html><head><title>Site</title><script>x()</script></head>\n<body>\n<h1>Boiler</h1>\n"
        "<p>In the <b>cellar</b>.</p>\n<nav>menu</nav>\n<h2>Care</h2><p>Filter.</p><!-- no -->\n</body></html>"
    )
    sections = read_sections("a.html", page.encode(), None)
    assert [(section.heading, section.text) for section in sections] == [
        (("Site", "Boiler"), "Boiler\nIn the cellar."),
        (("Site", "Boiler", "Care"), "Care\nFilter."),
    ]
    assert list(sections[0].numbers) == [3, 4]


def docx() -> bytes:
    from docx import Document

    document = Document()
    document.add_heading("Boiler", level=1)
    document.add_paragraph("It stands in the cellar.")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "filter", "seven"
    document.add_heading("Care", level=2)
    document.add_paragraph("Clean it.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_docx_gives_headings_and_tables() -> None:
    sections = read_sections("a.docx", docx(), None)
    assert [(section.heading, section.text) for section in sections] == [
        (("Boiler",), "Boiler\nIt stands in the cellar.\nfilter | seven"),
        (("Boiler", "Care"), "Care\nClean it."),
    ]
    with pytest.raises(UnreadableError, match="not a readable DOCX"):
        read_sections("a.docx", b"PK no", None)


def pdf(text: str) -> bytes:
    """The smallest document with one line of text."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj{content}endobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer<</Root 1 0 R/Size 6>>\nstartxref\n{len(body)}\n%%EOF"
    return (body + end).encode()


PDF = pdf("The boiler hums.")


def test_pdf_gives_pages(folder: Folder) -> None:
    (section,) = read_sections("a.pdf", PDF, None)
    assert section.page == 1
    assert "boiler hums" in section.text
    with pytest.raises(UnreadableError, match="not a readable PDF"):
        read_sections("a.pdf", b"%PDF-1.4 cut off", None)
    folder.write("paper.pdf", PDF)
    assert "docs/paper.pdf:page 1" in found(folder.load(), "what hums?")


def test_a_missing_extra_names_itself_and_the_rest_is_indexed(folder: Folder, tmp_path: Path) -> None:
    folder.write("a.pdf", PDF)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "pypdf.py").write_text("raise ImportError('not installed')\n")
    script = f"""
import sys
sys.path.insert(0, {str(hidden)!r})
from pathlib import Path
from devmem.stores import StoreSetup
from devmem_stores.file import FileConfig, FileMemory
config = FileConfig.model_validate({{"file_sources": [{{"path": "docs"}}]}})
store = FileMemory(StoreSetup(name="docs", store_type="file", config=config, base_dir=Path({str(tmp_path)!r})))
store.load()
print(store.report.files, store.report.problems)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1 ")
    assert f"needs the package 'pypdf': {install_command('files')}" in done.stdout
