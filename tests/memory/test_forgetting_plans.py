"""Statements of SQLite with which an item is forgotten: they look items up, however large the store is."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import devmem


def test_forgetting_an_item_reads_no_table_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statements are explained as they were run, with their values."""
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*given: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        ids = memory.add([f"note number {n}" for n in range(50)])
        memory.forget(ids[0])
        statements.clear()
        memory.forget(ids[1])
    of_items = [each for each in statements if "items" in each and each.split()[0] in ("SELECT", "UPDATE", "DELETE")]
    with connect(file) as connection:
        # SQLite writes an infinite number as a name, which it cannot read.
        explained = {each: f"EXPLAIN QUERY PLAN {each.replace('Inf', '9e999')}" for each in of_items}
        plans = {each: connection.execute(explained[each]).fetchall() for each in of_items}
    connection.close()
    assert len(plans) > 5
    assert not [each for each, plan in plans.items() if any(step[3] == "SCAN items" for step in plan)]
