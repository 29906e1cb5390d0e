"""The fields by which the items of a database are searched: recorded in `meta`, and changed within one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Final

from devmem.model.items import dump_item_json, load_item_json
from devmem.search.indexes.passages import has_text, passages_of
from devmem.storage.sqlite import database
from devmem.storage.sqlite import tables as rows
from devmem.storage.sqlite.compact_rows import parts_of
from devmem.storage.tables import NOW
from devmem.storage.writing import Fields, PreparedItem, recorded_first, recorded_too, with_fields

FIELDS: Final = "fields"
"""Property with the recorded fields, as JSON: lists of paths, the current one first, then all earlier ones."""


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


def replace_fields(connection: sqlite3.Connection, fields: Fields) -> int:
    """Search all versions by other fields; return the number of items that wait for embeddings."""
    recorded = _recorded(connection)
    changed: dict[int, PreparedItem] = {}
    for row, body in connection.execute("SELECT row, CAST(body AS BLOB) FROM items").fetchall():
        item = load_item_json(body)
        new = with_fields(item, fields, recorded)
        if new is item:
            continue
        connection.execute("UPDATE items SET body = ? WHERE row = ?", (dump_item_json(new).decode(), row))
        if passages_of(new) != passages_of(item):
            changed[row] = PreparedItem.of(new)
            values = (changed[row].length(), has_text(new), row)
            connection.execute("UPDATE items SET length = ?, waiting = ?, refusal = NULL WHERE row = ?", values)
    if changed:
        renumber(connection, changed)
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    _record(connection, recorded_first(fields, recorded))
    return int(connection.execute(f"SELECT count(*) FROM items WHERE waiting AND {NOW}").fetchone()[0])


def renumber(connection: sqlite3.Connection, changed: Mapping[int, PreparedItem]) -> None:
    """Insert the passages of some rows again, behind those of all others, and number all in the order of the rows.

    What has the higher row has the higher passages.
    """
    owned: dict[int, list[int]] = {}
    for row, passage in connection.execute("SELECT row, passage FROM passages ORDER BY row, passage").fetchall():
        owned.setdefault(row, []).append(passage)
    for row in sorted({*owned, *changed}):
        old = owned.get(row, [])
        if row in changed:
            rows.insert_passages(connection, row, changed[row])
        else:
            for passage in old:
                rows.copy_passage(connection, passage, row)
        for table in ("vectors", "passages"):
            connection.executemany(f"DELETE FROM {table} WHERE passage = ?", [(passage,) for passage in old])
        connection.executemany("DELETE FROM tokens WHERE part BETWEEN ? AND ?", map(parts_of, old))
