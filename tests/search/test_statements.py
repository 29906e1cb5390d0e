"""Statements of one subject stand together in the block, the earlier ones marked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import devmem
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import Hit
from devmem.search import MergePolicy, merge, with_related


def hit(name: str, text: str, day: int, score: float) -> Hit:
    time = datetime(2026, 5, day, tzinfo=UTC).timestamp()
    return Hit(item=MemoryItem(id=name, content_summary=text, event_time=time), score=score, store="notes")


HITS = (
    hit("new", "The launch moved to June 2nd.", 20, 0.9),
    hit("other", "Ann books the hall.", 3, 0.8),
    hit("old", "The launch is on May 5th.", 1, 0.7),
)


def test_hits_name_each_other() -> None:
    """In both directions, and nothing is reordered."""
    found = with_related(HITS)
    assert [one.item.id for one in found] == ["new", "other", "old"]
    assert [one.related for one in found] == [("old",), (), ("new",)]


def test_at_the_same_time_nothing_is_earlier() -> None:
    """Two statements of one moment contradict each other, and neither is the older one."""
    same = [hit("1", "The launch is on May 5th.", 1, 0.9), hit("2", "The launch is on June 2nd.", 1, 0.8)]
    assert [one.related for one in with_related(same)] == [(), ()]


def test_the_block_shows_them_in_the_order_of_time() -> None:
    """The earlier one says so, with its day."""
    result = merge([HITS], MergePolicy())
    lines = [line for line in result.formatted_text.splitlines() if line[:1].isdigit()]
    assert lines == [
        "1. (earlier) [2026-05-01] The launch is on May 5th.",
        "2. [2026-05-20] The launch moved to June 2nd.",
        "3. [2026-05-03] Ann books the hall.",
    ]
    assert [one.item.id for one in result.hits] == ["old", "new", "other"]
    chinese = merge([HITS], MergePolicy(language="zh")).formatted_text
    assert "1. (较早)[2026-05-01] The launch" in chinese


def test_what_has_no_date_of_its_own_is_marked_with_the_day_of_storing() -> None:
    """So that the reader knows how old it is."""
    stored = [replace(one.item, event_time=None, created_at=one.item.event_time or 0.0) for one in HITS]
    found = [replace(one, item=item) for one, item in zip(HITS, stored, strict=True)]
    assert "1. (earlier, 2026-05-01) The launch is on May 5th." in merge([found], MergePolicy()).formatted_text


def test_requests_that_differ_in_a_number_keep_their_order_and_have_no_mark() -> None:
    """Chapter 1 is no earlier state of chapter 2."""
    asked = [hit(f"{n}", f"Write chapter {n}.", n, 1.0 - n / 10) for n in (2, 1)]
    result = merge([asked], MergePolicy(origins=False))
    assert "earlier" not in result.formatted_text
    assert [one.item.id for one in result.hits] == ["2", "1"]


def test_what_two_users_say_of_themselves_is_not_related() -> None:
    """Neither has moved."""
    said = [hit("a", "I live in Berlin.", 1, 0.9), hit("b", "I live in Hamburg.", 2, 0.8)]
    assert with_related(said)[0].related
    users = [replace(one, item=replace(one.item, scope=Scope(user=one.item.id))) for one in said]
    assert not with_related(users)[0].related


def test_a_search_reports_what_is_related() -> None:
    """Through the front door; a store's own search leaves the comparison to whoever shows its hits."""
    with devmem.open(":memory:", embedding=None) as memory:
        old = memory.add("The launch is on May 5th.", time="2026-05-01")
        new = memory.add("The launch is now on June 2nd.", time="2026-05-20")
        found = {one.id: one.hit.related for one in memory.search("When is the launch?")}
    assert found == {old: (new,), new: (old,)}
