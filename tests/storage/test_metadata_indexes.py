"""Indexes on metadata: what they cover is read from them alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from pydantic import ValidationError

from devmem import MemoryItem
from devmem.config import IndexConfig
from devmem.errors import FilterError
from devmem.storage import Filter, SqliteCollection, at_least, differs_from, starts_with
from devmem.storage.sqlite.predicates import SqliteDialect

NOW = 50.0
KEYS = ("k", "a.b")
INDEX = IndexConfig(metadata=KEYS)
RESTRICTIONS = [
    Filter(metadata={"k": "v1"}),
    Filter(metadata={"k": starts_with("v")}),
    Filter(metadata={"k": at_least(3)}),
    Filter(metadata={"k": differs_from("v1")}),
    Filter(metadata={"k": True}),
]


@pytest.mark.parametrize("where", RESTRICTIONS, ids=str)
def test_a_filter_reads_no_body(tmp_path: Path, where: Filter) -> None:
    """SQLite finds type and value in the index, and calls no function that would read the body."""
    path = tmp_path / "notes.db"
    SqliteCollection(path, index=INDEX).close()
    condition, values = SqliteDialect(KEYS).where(where, NOW)
    condition = condition.removeprefix("(expires_at IS NULL OR expires_at > ?) AND ")
    with sqlite3.connect(path) as connection:
        program = connection.execute(f"EXPLAIN SELECT row FROM items WHERE {condition}", values[1:]).fetchall()
    connection.close()
    calls = {str(step[5]) for step in program if step[1] == "Function"}
    assert not any("json" in call for call in calls), calls


def test_an_existing_file_gets_its_indexes(tmp_path: Path) -> None:
    """Also one that was written without them; a damaged body does not keep it from opening."""
    path = tmp_path / "notes.db"
    collection = SqliteCollection(path)
    collection.add([MemoryItem(id=str(n), content_summary="x", metadata={"k": n % 3}) for n in range(9)])
    collection.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE items SET body = '{' WHERE id = '4'")
        connection.execute("DROP INDEX items_by_trace")
        connection.execute("DROP INDEX items_by_source")
    connection.close()
    collection = SqliteCollection(path, index=INDEX)
    assert [item.id for item in collection.scan(Filter(metadata={"k": 1}))] == ["1", "7"]
    assert collection.values("metadata.k") == [0, 1, 2]
    collection.close()
    with sqlite3.connect(path) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    connection.close()
    assert {"items_by_trace", "items_by_source", "items_by_value_k", "items_by_value_a.b"} <= names


@pytest.mark.parametrize("key", ["", "it's", 'say "hi"', "键", "a\\b"])
def test_a_key_that_no_expression_can_name_is_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        IndexConfig(metadata=(key,))


def test_values_of_an_unknown_key_are_refused() -> None:
    collection = SqliteCollection()
    with pytest.raises(FilterError, match="expected one of agent"):
        collection.values("metadata.")
    collection.close()
