"""The fields by which the items of a database are searched: recorded in `meta`, and changed within one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Final

from devmem.model.items import MemoryItem, dump_item_json
from devmem.search.indexes.passages import has_text, passages_of
from devmem.storage.sqlite import database, rows
from devmem.storage.sqlite.compact_rows import parts_of
from devmem.storage.sqlite.rows import ITEM_CHECKSUM, checksum
from devmem.storage.writing import DamagedRows, Fields, PreparedItem, recorded_first, recorded_too, with_fields

FIELDS: Final = "fields"
"""Property with the recorded fields, as JSON: lists of paths, the current one first, then all earlier ones."""
_TABLES: Final = ("items", "versions")


def read_fields(connection: sqlite3.Connection) -> Fields:
    """Return the fields that are recorded now."""
    return next(iter(_recorded(connection)), ())


def record_fields(connection: sqlite3.Connection, fields: Fields) -> None:
    """Record that items are written with other fields, too."""
    _record(connection, recorded_too(fields, _recorded(connection)))


def _recorded(connection: sqlite3.Connection) -> list[Fields]:
    found = database.read_meta(connection).get(FIELDS)
    return [tuple(each) for each in json.loads(found)] if isinstance(found, str) else []


def _record(connection: sqlite3.Connection, recorded: list[Fields]) -> None:
    database.set_meta(connection, FIELDS, json.dumps(recorded))


def replace_fields(connection: sqlite3.Connection, fields: Fields, damaged: DamagedRows) -> int:
    """Search items and versions by other fields; return the number of items that wait for embeddings."""
    recorded = _recorded(connection)
    changed: dict[int, PreparedItem] = {}
    for table in _TABLES:
        select = f"SELECT row, CAST(body AS BLOB), body_checksum FROM {table}"
        for row, *rest in connection.execute(select).fetchall():
            item = rows.item_from_row(damaged, row, *rest)
            if item is None or (new := with_fields(item, fields, recorded)) is item:
                continue
            _replace_body(connection, table, row, new)
            if passages_of(new) != passages_of(item):
                changed[row] = PreparedItem.of(new)
                _refresh_columns(connection, table, row, changed[row])
    if changed:
        _renumber(connection, changed)
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    _record(connection, recorded_first(fields, recorded))
    return int(connection.execute("SELECT count(*) FROM items WHERE waiting").fetchone()[0])


def _replace_body(connection: sqlite3.Connection, table: str, row: int, item: MemoryItem) -> None:
    body = dump_item_json(item)
    update = f"UPDATE {table} SET body = ?, body_checksum = ? WHERE row = ?"
    connection.execute(update, (body.decode(), checksum(body), row))


def _refresh_columns(connection: sqlite3.Connection, table: str, row: int, prepared: PreparedItem) -> None:
    """Replace what the columns say of the passages, unless they are damaged: a new checksum would hide that."""
    update = f"UPDATE {table} SET length = ? WHERE row = ? AND {ITEM_CHECKSUM} = columns_checksum"
    if connection.execute(update, (prepared.length(), row)).rowcount:
        connection.execute(f"UPDATE {table} SET columns_checksum = {ITEM_CHECKSUM} WHERE row = ?", (row,))
    connection.execute(f"UPDATE {table} SET waiting = ?, refusal = NULL WHERE row = ?", (has_text(prepared.item), row))


def _renumber(connection: sqlite3.Connection, changed: Mapping[int, PreparedItem]) -> None:
    """Insert the passages of some rows again, behind those of all others, and number all in the order of the rows.

    What has the higher row has the higher passages.
    """
    passages = connection.execute("SELECT row, passage FROM passages ORDER BY row, passage").fetchall()
    owned: dict[int, list[int]] = {}
    for row, passage in passages:
        owned.setdefault(row, []).append(passage)
    for row in sorted({*owned, *changed}):
        old = owned.get(row, [])
        if row in changed:
            for table in ("vectors", "passages"):
                connection.executemany(f"DELETE FROM {table} WHERE passage = ?", [(passage,) for passage in old])
            connection.executemany("DELETE FROM tokens WHERE part BETWEEN ? AND ?", map(parts_of, old))
            rows.insert_passages(connection, row, changed[row])
        else:
            _move_last(connection, old)


def _move_last(connection: sqlite3.Connection, passages: list[int]) -> None:
    """Number passages again, above all others, in their order."""
    for passage in passages:
        moved = "INSERT INTO passages(row, term_hashes, term_counts, term_length, checksum) SELECT row, term_hashes, "
        moved += "term_counts, term_length, checksum FROM passages WHERE passage = ?"
        number = connection.execute(moved, (passage,)).lastrowid
        connection.execute("DELETE FROM passages WHERE passage = ?", (passage,))
        connection.execute("UPDATE vectors SET passage = ? WHERE passage = ?", (number, passage))
        shift = parts_of(number or 0)[0] - parts_of(passage)[0]
        connection.execute("UPDATE tokens SET part = part + ? WHERE part BETWEEN ? AND ?", (shift, *parts_of(passage)))
