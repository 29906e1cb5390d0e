"""An item's passages say all that it says, once; the passage map holds what a list of pairs holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.search.indexes.passages import PassageMap, indexed_text
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


BATCHES = st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=5)
"""How many passages each item of a batch has."""
STEPS = st.integers(1, 3)


def numbered(batches: list[list[int]], step: int) -> list[list[tuple[int, int]]]:
    """Return passages and rows as a database numbers them, with gaps where items were deleted at once."""
    passage, row = 0, 0
    found = []
    for batch in batches:
        pairs = []
        for count in batch:
            row += step
            for _ in range(count):
                passage += step
                pairs.append((passage, row))
        found.append(pairs)
    return found


class Thrifty(PassageMap):
    """Frees room at once."""

    least_removed = 0


@given(batches=BATCHES, step=STEPS, data=st.data())
def test_what_is_left_after_removing(batches: list[list[int]], step: int, data: st.DataObject) -> None:
    """Rows that were not removed keep their passages, whatever was given back, and a view keeps all of its moment."""
    added = numbered(batches, step)
    order = data.draw(st.permutations(added))
    passage_map, gone = Thrifty(), set[int]()
    there: list[tuple[int, int]] = []
    views = []
    for pairs in order:
        passage_map.add([passage for passage, _ in pairs], [row for _, row in pairs])
        there = sorted([*there, *pairs])
        rows = sorted(data.draw(st.sets(st.integers(0, 40), max_size=8)))
        passage_map.remove(np.array(rows, dtype=np.int64))
        gone |= set(rows) & {row for _, row in there}
        if data.draw(st.booleans()):
            passage_map = Thrifty.restore(passage_map.parts())
        views.append((passage_map.view(), [pair for pair in there if pair[1] not in gone]))
    for view, left in views:
        kept = sorted({row for _, row in left})
        passages, owner = view.passages_of(np.array(kept, dtype=np.int64))
        wanted = [(passage, kept.index(row)) for passage, row in left]
        assert list(zip(passages.tolist(), owner.tolist(), strict=True)) == wanted
        assert view.all_passages_of(np.array(kept, dtype=np.int64)).tolist() == sorted(passages.tolist())
        assert view.rows_of(passages[::-1]).tolist() == [row for _, row in left][::-1]
