"""Indexes on metadata."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from devmem import MemoryItem
from devmem.config import IndexConfig
from devmem.errors import FilterError
from devmem.storage import Filter, SqliteCollection

KEYS = ("k", "a.b")
INDEX = IndexConfig(metadata=KEYS)


def test_an_existing_file_gets_its_indexes(tmp_path: Path) -> None:
    """It was written without them."""
    path = tmp_path / "notes.db"
    collection = SqliteCollection(path)
    collection.add([MemoryItem(id=str(n), content_summary="x", metadata={"k": n % 3}) for n in range(9)])
    collection.close()
    collection = SqliteCollection(path, index=INDEX)
    assert [item.id for item in collection.scan(Filter(metadata={"k": 1}))] == ["1", "4", "7"]
    assert collection.values("metadata.k") == [0, 1, 2]
    collection.close()


@pytest.mark.parametrize("key", ["", "it's", 'say "hi"', "键", "a\\b"])
def test_a_key_that_no_expression_can_name_is_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        IndexConfig(metadata=(key,))


def test_values_of_an_unknown_key_are_refused() -> None:
    collection = SqliteCollection()
    with pytest.raises(FilterError, match="expected one of agent"):
        collection.values("metadata.")
    collection.close()
