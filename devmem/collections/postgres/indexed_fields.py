"""The fields by which the items of a store are searched: recorded in `states`, and changed within one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Final

from devmem.collections.fielded import Fields, recorded_first, recorded_too, with_fields
from devmem.collections.postgres import rows
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.inserting import insert_passages
from devmem.collections.postgres.locks import lock
from devmem.collections.postgres.rows import CURRENT, KEPT, Tables
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.merging import start_again
from devmem.collections.prepared import PreparedItem
from devmem.indexes.passages import passages_of
from devmem.model.indexed_fields import has_text
from devmem.model.items import dump_item_json

_KIND: Final = "devmem.index"
_NAME: Final = "fields"
_KEY: Final = rows.key_of(_NAME)
_AT_ONCE: Final = 500


def read_fields(connection: Connection, store: int) -> Fields:
    """Return the fields that are recorded now."""
    return next(iter(_recorded(connection, store)), ())


def record_fields(connection: Connection, store: int, fields: Fields) -> None:
    """Record that items are written with other fields, too."""
    lock(connection, "store", store)
    _record(connection, store, recorded_too(fields, _recorded(connection, store)))


def _recorded(connection: Connection, store: int) -> list[Fields]:
    """Return the fields that are recorded, the current ones first, then all earlier ones."""
    query = "SELECT value FROM states WHERE store = %s AND kind = %s AND name_key = %s"
    found = connection.execute(query, (store, _KIND, _KEY), binary=True).fetchone()
    return [] if found is None else [tuple(each) for each in json.loads(bytes(found[0]))]


def _record(connection: Connection, store: int, recorded: list[Fields]) -> None:
    connection.execute(
        "INSERT INTO states(store, kind, name_key, name, value) VALUES (%s, %s, %s, %s, %s) "
        "ON CONFLICT (store, kind, name_key) DO UPDATE SET value = excluded.value, version = states.version + 1",
        (store, _KIND, _KEY, _NAME, json.dumps(recorded).encode()),
    )


def replace_fields(connection: Connection, store: int, fields: Fields) -> int:
    """Search items and versions by other fields; return the number of items that wait for embeddings."""
    lock(connection, "store", store)
    connection.execute("SET LOCAL statement_timeout = 0")
    recorded = _recorded(connection, store)
    changed = sum(_replace_in(connection, store, fields, recorded, tables) for tables in (CURRENT, KEPT))
    if changed:
        start_again(connection, store)
        connection.execute("UPDATE stores SET generation = generation + 1 WHERE store = %s", (store,))
    _record(connection, store, recorded_first(fields, recorded))
    query = "SELECT count(*) FROM items WHERE store = %s AND waiting"
    return int((connection.execute(query, (store,)).fetchone() or (0,))[0])


def _replace_in(connection: Connection, store: int, fields: Fields, recorded: Sequence[Fields], tables: Tables) -> int:
    """Replace the fields of the items in some tables; return the number of those whose passages are others now."""
    update = composed(f"UPDATE {tables.items} SET body = %s WHERE store = %s AND row = %s")
    changed, bodies = 0, rows.each_body(connection, store, tables)
    while some := list(islice(bodies, _AT_ONCE)):
        other_passages: list[tuple[int, PreparedItem]] = []
        for row, body in some:
            item = rows.item_from(body)
            new = with_fields(item, fields, recorded)
            if new is item:
                continue
            connection.execute(update, (dump_item_json(new).decode(), store, row))
            if passages_of(new) != passages_of(item):
                other_passages.append((row, PreparedItem.of(new)))
        for row, prepared in other_passages:
            _drop_passages(connection, store, row, prepared, tables)
        insert_passages(connection, store, other_passages, tables)
        changed += len(other_passages)
    return changed


def _drop_passages(connection: Connection, store: int, row: int, prepared: PreparedItem, tables: Tables) -> None:
    update = composed(f"UPDATE {tables.items} SET length = %s, waiting = %s WHERE store = %s AND row = %s")
    connection.execute(update, (prepared.length(), has_text(prepared.item), store, row))
    own = (store, row << PASSAGE_BITS, (row + 1) << PASSAGE_BITS)
    for table in (tables.vectors, tables.tokens, tables.passages):
        connection.execute(composed(f"DELETE FROM {table} WHERE store = %s AND passage >= %s AND passage < %s"), own)
