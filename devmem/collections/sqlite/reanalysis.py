"""Items that an older version of the text analysis read are analysed again, within one transaction."""

from __future__ import annotations

import sqlite3
from typing import Final

from devmem.collections.prepared import PreparedItem
from devmem.collections.sqlite import database, rows
from devmem.collections.sqlite.integrity import ITEM_CHECKSUM, DamagedRows
from devmem.model.items import MemoryItem
from devmem.text.analysis import ANALYSIS_VERSION
from devmem.text.cues import cues_of

_TABLES: Final = ("items", "versions")


def refresh_analysis(connection: sqlite3.Connection, damaged: DamagedRows) -> None:
    """Replace terms and cues of every item when they are of another version of the text analysis."""
    if database.read_meta(connection)["analysis"] == ANALYSIS_VERSION:
        return
    for table in _TABLES:
        select = f"SELECT row, CAST(body AS BLOB), body_checksum FROM {table}"
        for row, *rest in connection.execute(select).fetchall():
            if (item := rows.item_from_row(damaged, row, *rest)) is not None:
                _refresh_passages(connection, row, item)
                _refresh_cues(connection, table, row, item)
    database.set_meta(connection, "analysis", ANALYSIS_VERSION)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def _refresh_passages(connection: sqlite3.Connection, row: int, item: MemoryItem) -> None:
    passages = connection.execute("SELECT passage FROM passages WHERE row = ? ORDER BY passage", (row,)).fetchall()
    for (passage,), encoded in zip(passages, PreparedItem.of(item).terms(), strict=True):
        rows.update_terms(connection, passage, row, encoded)


def _refresh_cues(connection: sqlite3.Connection, table: str, row: int, item: MemoryItem) -> None:
    """Replace an item's cues, unless its columns are damaged: a new checksum would hide that."""
    intact = f"row = ? AND {ITEM_CHECKSUM} = columns_checksum"
    values = (int(cues_of(item.content_summary)), row)
    if connection.execute(f"UPDATE {table} SET cues = ? WHERE {intact}", values).rowcount:
        connection.execute(f"UPDATE {table} SET columns_checksum = {ITEM_CHECKSUM} WHERE row = ?", (row,))
