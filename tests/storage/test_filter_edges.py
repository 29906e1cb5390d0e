"""The edges of filters, each with the items that it admits; filters that are refused; indexes on metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from pydantic import ValidationError

from devmem import Filter, MemoryItem, Scope
from devmem.config import IndexConfig
from devmem.errors import FilterError
from devmem.storage import Condition, Operator, SearchQuery, SqliteCollection, above, contains, one_of
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


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: Filter(scope=Scope(user=5)), "scope.user"),  # type: ignore[arg-type]
        (lambda: Filter(scope_in={"usr": one_of("a")}), "scope_in"),
        (lambda: Filter(unbound=("user", "usr")), "unbound"),
        (lambda: SqliteCollection().values("metadata."), "key"),
        (lambda: Filter(after="2024"), "after"),  # type: ignore[arg-type]
        (lambda: Filter(min_trust=True), "min_trust"),
        (lambda: Filter(metadata={"room": None}), "metadata['room']"),  # type: ignore[dict-item]
        (lambda: Filter(any_of=({},)), "any_of"),  # type: ignore[arg-type]
        (lambda: Filter(source_kind="flie"), "source_kind"),
        (lambda: Filter(scope_in={"user": contains("a")}), "scope_in['user']"),
        (lambda: Filter(any_of=tuple(Filter(metadata={"k": n}) for n in range(500))), "any_of"),
        (lambda: Condition(Operator.EXISTS, ("yes",)), "values"),
        (lambda: above(float("nan")), "values"),
        (lambda: one_of(*range(10_001)), "values"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(made: object, field: str) -> None:
    """The error names the field, before any database sees the value."""
    with pytest.raises(FilterError) as error:
        made()  # type: ignore[operator]
    assert error.value.field == field
    assert field in str(error.value)


def test_an_existing_file_gets_its_indexes(tmp_path: Path) -> None:
    """It was written without them."""
    path = tmp_path / "notes.db"
    collection = SqliteCollection(path)
    collection.add([MemoryItem(id=str(n), content_summary="x", metadata={"k": n % 3}) for n in range(9)])
    collection.close()
    collection = SqliteCollection(path, index=IndexConfig(metadata=("k", "a.b")))
    assert [item.id for item in collection.scan(Filter(metadata={"k": 1}))] == ["1", "4", "7"]
    assert collection.values("metadata.k") == [0, 1, 2]
    collection.close()


@pytest.mark.parametrize("key", ["", "it's", 'say "hi"', "键", "a\\b"])
def test_a_key_that_no_expression_can_name_is_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        IndexConfig(metadata=(key,))
