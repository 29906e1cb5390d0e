"""The edges of filters, each with the items that it admits: in Python, in SQL and in the indexes of a search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from devmem import Filter, MemoryItem, Scope
from devmem.storage import SearchQuery, SqliteCollection
from devmem.stores import Provenance, SourceKind
from devmem.testing import ManualClock
from tests.collection_suite.agreement import NOW, check_agreement

ANN: Final = Scope(user="ann")
ROOM: Final = Filter(metadata={"room": "hall"})
MAIL: Final = Filter(source_name="mail")
ITEMS: Final = [
    MemoryItem(id="ann", content_summary="note of ann", scope=ANN, event_time=100.0, trust=0.4),
    MemoryItem(
        id="bob", content_summary="note of bob", scope=Scope(user="bob"), event_time=200.0, metadata={"room": "hall"}
    ),
    MemoryItem(
        id="free",
        content_summary="note of free",
        event_time=300.0,
        provenance=Provenance(kind=SourceKind.TOOL, name="mail"),
    ),
    MemoryItem(id="old", content_summary="note of old", scope=ANN, event_time=100.0, expires_at=NOW),
]


@pytest.fixture
def collection() -> Iterator[SqliteCollection]:
    clock = ManualClock(NOW - 1)
    with closing(SqliteCollection(clock=clock)) as opened:
        opened.add(ITEMS)
        # What expires now is still there to be left out.
        clock.advance(1)
        yield opened


@pytest.mark.parametrize(
    ("where", "admitted"),
    [
        (Filter(), ["ann", "bob", "free"]),
        (Filter(after=200.0), ["bob", "free"]),
        (Filter(before=200.0), ["ann"]),
        (Filter(min_trust=0.5), ["bob", "free"]),
        (Filter(scope=ANN), ["ann"]),
        (Filter(scope=ANN, include_unscoped=True), ["ann", "free"]),
        (Filter(unbound=("user",)), ["free"]),
        (ROOM, ["bob"]),
        (~ROOM, ["ann", "free"]),
        (MAIL, ["free"]),
        (~MAIL, ["ann", "bob"]),
        (~Filter(scope=ANN), ["bob", "free"]),
        (ROOM | MAIL, ["bob", "free"]),
        (Filter(scope=ANN) & ~ROOM, ["ann"]),
    ],
    ids=str,
)
def test_a_filter_admits(collection: SqliteCollection, where: Filter, admitted: list[str]) -> None:
    assert [item.id for item in ITEMS if where.admits(item, NOW)] == admitted
    check_agreement(collection, ITEMS, where)
    # What is hidden is no candidate either, which would take the place of another one.
    assert collection.search(SearchQuery(text="note", where=where, limit=9)).candidates == len(admitted)
