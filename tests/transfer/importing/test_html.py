"""HTML pages: title, headings and text, whatever a page looks like."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.model.times import parse_time
from devmem.text.html import read_page
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
