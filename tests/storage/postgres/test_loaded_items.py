"""Fields of items that a search has the server read while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from devmem.storage.postgres.server.loaded import FieldCache, FieldRow, LoadedItems


class Database:
    """Has the fields of any item; notes which were asked for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def execute(self, _query: str, parameters: Mapping[str, Any], *, binary: bool) -> Database:
        assert binary
        self.asked.append(list(parameters["rows"].numbers))
        return self

    def fetchall(self) -> list[FieldRow]:
        return [_fields(row) for row in self.asked[-1]]


def _fields(row: int) -> FieldRow:
    return row, None, None, None, None, f"speaker {row}", float(row), 9, 0, None


def test_fields_that_another_search_reads_meanwhile_are_there_once() -> None:
    database, cache = Database(), FieldCache()
    admitted: Any = SimpleNamespace(connection=database, store=1)
    loaded = LoadedItems(admitted, None, lambda rows: rows, cache, None)
    loaded.expect_fields(np.array([7, 8, 8]))
    cache.keep([_fields(8), _fields(9)])
    loaded.expect_fields(np.array([8, 9]))
    fields = loaded.fields_of(np.array([7, 8, 9]))
    assert sorted(fields.column("time").tolist()) == [7.0, 8.0, 9.0]
    assert fields.speakers(fields.positions(np.array([9, 8, 7]))) == ["speaker 9", "speaker 8", "speaker 7"]
    assert database.asked == [[7, 8]]
