"""An item's passages say all that it says, once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.search.indexes.passages import indexed_text
from devmem.storage import passages_of
from devmem.text.analysis import PASSAGE_LENGTH
from tests.cases import cases

WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=8), max_size=60).map(" ".join)
PARAGRAPHS = st.lists(WORDS, max_size=6).map("\n\n".join)


def item(summary: str, asked: str | None = None, answered: str | None = None, **fields: Any) -> MemoryItem:
    shots = [None if text is None else MemoryContentSnapshot(text=text) for text in (asked, answered)]
    return MemoryItem(content_summary=summary, input_snapshot=shots[0], output_snapshot=shots[1], **fields)


@given(summary=PARAGRAPHS, asked=st.none() | PARAGRAPHS, answered=st.none() | PARAGRAPHS)
def test_no_word_is_lost(summary: str, asked: str | None, answered: str | None) -> None:
    passages = passages_of(item(summary, asked, answered))
    assert all(passage.strip() and len(passage) <= PASSAGE_LENGTH for passage in passages)
    said = set(" ".join(passages).split())
    assert said == set(" ".join([summary, asked or "", answered or ""]).split())


@pytest.mark.parametrize(
    ("summary", "asked", "answered", "wanted"),
    cases("search_passages_of_items", "what_is_searched"),
)
def test_what_is_searched(summary: str, asked: str | None, answered: str | None, wanted: list[str]) -> None:
    assert passages_of(item(summary, asked, answered)) == wanted


def test_who_spoke_is_no_word_of_the_text() -> None:
    """The label that `from_messages` puts before a message's text is not searched; the word itself is."""
    shot = "(user) the user wants tea\n(assistant) here it is"
    assert passages_of(item("x", shot)) == ["x\n\nthe user wants tea\nhere it is"]
    assert passages_of(item("see (user) here")) == ["see (user) here"]


@pytest.mark.parametrize(
    ("event_time", "wanted"),
    [
        (datetime(2023, 5, 8, 23, 59, tzinfo=UTC).timestamp(), "8 May 2023 2023-05-08"),
        (None, ""),
        (1.7e12, ""),
        (float("nan"), ""),
        (float("inf"), ""),
    ],
)
def test_the_day_is_written_as_one_asks_for_it(event_time: float | None, wanted: str) -> None:
    assert indexed_text("", item("x", event_time=event_time)) == wanted
