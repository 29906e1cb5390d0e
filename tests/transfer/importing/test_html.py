"""HTML pages, and folders and archives of files: what is in them is read, whatever they look like."""

from __future__ import annotations

import gzip
import re
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import DataFileError
from devmem.model.times import parse_time
from devmem.text.html import read_page
from devmem.transfer.importing.folders import data_files
from devmem.transfer.importing.formats import open_data
from tests.transfer.reading import items

PAGE = Path(__file__).parents[2] / "data" / "imports" / "page.html"


def texts(source: str) -> list[str]:
    return [block.text for block in read_page(source).blocks]


def test_a_page_is_its_text_with_title_and_headings() -> None:
    found = items(PAGE)
    assert [(item.content_summary, item.metadata["section"], item.metadata["line"]) for item in found] == [
        ("It is on June 2nd, at the Old Mill.\nDoors open at 9.", "Launch", 14),
        ("- Book the venue\n- Print the flyers", "Launch > Tasks", 17),
        ("Who | What\nAnn | Talk", "Launch > Tasks", 18),
        ("a = 1\n  b = 2", "Launch > Tasks", 21),
        ("Ship it.", "Launch > Tasks", 23),
    ]
    assert {(item.metadata["title"], item.metadata["author"]) for item in found} == {("The launch – plan", "Ann & Ben")}
    assert {item.event_time for item in found} == {parse_time("2024-05-01T08:00:00Z")}


@pytest.mark.parametrize("declared", ["iso-8859-1", "windows-1252", "utf-8", "x-unknown", "punycode", ""])
def test_the_encoding_is_the_declared_one_where_it_fits(tmp_path: Path, declared: str) -> None:
    text = "Für Größe und Öl – „wie üblich“, über dem Flur für die Gäste."
    path = tmp_path / "a.html"
    path.write_bytes(
        f'<meta http-equiv="content-type" content="text/html; charset={declared}"><p>{text}'.encode("cp1252")
    )
    assert [item.content_summary for item in items(path)] == [text]
    path.write_bytes(f"<meta charset=koi8-r><p>{text}".encode())
    assert [item.content_summary for item in items(path, encoding="utf-8")] == [text]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>1 < 2 & 3 > 2", ["1 < 2 & 3 > 2"]),
        ('<a title="5" wide" href=x>text</a>', ["text"]),
        ("<p>one<script>var a = '</p>';</script> two", ["one two"]),
        ("<p>one<!-- never ends", ["one"]),
        ("<![CDATA[x]]><?php echo ?>one", ["one"]),
        ("<table><tr><td><table><tr><td>in</td></tr></table></td><td>out</td></tr></table>", ["in\nout"]),
        ("&#0;&#xD800;&lt;b&gt;", ["\ufffd\ufffd<b>"]),
    ],
)
def test_malformed_html_is_read_as_far_as_it_has_text(source: str, expected: list[str]) -> None:
    assert texts(source) == expected


@pytest.mark.parametrize("piece", ["<", "<a b='", "<!--", "&#", "<div>", "<script>", "<pre>\n"])
def test_hostile_pages_take_linear_time(piece: str) -> None:
    """Each would take hours if it took time quadratic in the length."""
    read_page(f"<p>{piece * 100_000}")


@given(st.lists(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1), min_size=1, max_size=8))
def test_every_word_of_a_page_is_kept(words: list[str]) -> None:
    source = "".join(f"<p>{word}</p>" if at % 2 else f"<div><b>{word}</b></div>" for at, word in enumerate(words))
    assert re.findall(r"\S+", " ".join(texts(source))) == words


SAMPLES = Path(__file__).parents[2] / "data" / "imports"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@cache
def packed(head: bytes, line: bytes) -> bytes:
    """Return a packed file of 250 million bytes."""
    file = BytesIO()
    with gzip.open(file, "wb", compresslevel=1) as packing:
        packing.write(head)
        for _ in range(250):
            packing.write(line)
    return file.getvalue()


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.json", "a.html", "a.mbox"])
@pytest.mark.parametrize("line", [b"x" * 999_999 + b"\n", b"x" * 1_000_000], ids=["lines", "one line"])
def test_a_packed_file_that_only_fills_memory_is_refused(tmp_path: Path, name: str, line: bytes) -> None:
    path = tmp_path / f"{name}.gz"
    path.write_bytes(
        packed(b"From a@x.org Wed May  1 08:00:00 2024\nFrom: a@x.org\n\n" if name == "a.mbox" else b"text\n", line)
    )
    with pytest.raises(
        DataFileError, match=r"gz(:\d+)?: .*(unpacks to more than 200 times|200,000,000 bytes|not JSON)"
    ):
        for _ in open_data(path).records:
            pass


def test_an_archive_that_only_fills_the_disk_is_refused(tmp_path: Path, scratch: Path) -> None:
    path = tmp_path / "a.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.txt", "w") as file,
    ):
        for _ in range(250):
            file.write(b"x" * 1_000_000)
    with pytest.raises(DataFileError, match=r"a\.zip: a\.txt in it unpacks to 250,000,000 bytes from"):
        list(data_files(path, scratch))
    assert not list(scratch.rglob("*.txt"))


def test_files_that_hold_no_data_are_counted(tmp_path: Path, scratch: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a.png", "b.png", "c.pdf", "notes.txt", "inner.zip"):
        (folder / name).write_bytes(b"x")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    for place in (folder, tmp_path / "a.zip"):
        caplog.clear()
        found = [Path(name).name for _, name in data_files(place, scratch)]
        assert found == ["inner.zip", "notes.txt"], "an archive within is refused by name when it is opened"
        assert "files without records are left out: .png (2), .pdf (1)" in caplog.text
