"""Rebuilding those parts of a collection's file that are made from its items."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

from devmem.collections.prepared import PreparedItem
from devmem.collections.sqlite.database import translate_errors
from devmem.collections.sqlite.examination import Examination, rows_of_versions
from devmem.collections.sqlite.rows import insert_item
from devmem.collections.sqlite.sealing import seal
from devmem.errors import CollectionDamagedError
from devmem.model.items import load_item_json
from devmem.text.atomic_write import remove_leftovers

_BUSY_SECONDS: Final = 5.0
_PASSAGES_OF: Final = "SELECT passage FROM passages WHERE row = ?"
_WITHOUT_PASSAGES: Final = "SELECT row FROM items WHERE row NOT IN (SELECT row FROM passages)"
_ITEM_OF: Final = "SELECT row FROM passages WHERE passage = ?"


def repair(examined: Examination) -> list[str]:
    """Rebuild what an examination found wrong and return what was done, one line each.

    Orphans and leftovers are deleted, the number of items is corrected, items without terms or with damaged rows are
    stored again, and those with damaged vectors wait for new ones. Items that cannot be read stay as they are. The
    snapshot of the indexes is rebuilt by the next opening.

    Raises:
        CollectionDamagedError: the structure of the file is damaged; nothing was changed.
        CollectionError: it cannot be written.
    """
    path = examined.path
    if examined.damage:
        raise CollectionDamagedError(
            path, "its structure is damaged, so that a repair could lose more; it was left as it is. Save what can be "
            "read with --salvage, or restore a backup.",
        )  # fmt: skip
    done: list[str] = []
    with translate_errors(str(path)), closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        done += _delete_orphans(connection, examined)
        done += _drop_vectors(connection, examined)
        if examined.miscounted:
            connection.execute("UPDATE meta SET value = (SELECT count(*) FROM items) WHERE key = 'count'")
            done.append("the number of items was corrected")
        done += _store_again(connection, examined.without_terms, examined, "without terms")
        done += _store_again(connection, _damaged(connection, examined), examined, "with damaged rows")
        if examined.unsealed:
            done.append("the checksum of the recorded properties was renewed; compare them with the workflow's")
        if done:
            # Indexes in memory and on disk were built from the old rows.
            connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
            seal(connection)
    if removed := remove_leftovers(path):
        done.append(f"{removed:,} leftover files were removed")
    return done


def _delete_orphans(connection: sqlite3.Connection, examined: Examination) -> list[str]:
    if not examined.orphans:
        return []
    connection.execute(f"DELETE FROM passages WHERE row NOT IN ({rows_of_versions(connection)})")
    for table in ("vectors", "tokens"):
        connection.execute(f"DELETE FROM {table} WHERE passage NOT IN (SELECT passage FROM passages)")
    return [f"{count:,} {kind} were deleted" for kind, count in examined.orphans.items()]


def _damaged(connection: sqlite3.Connection, examined: Examination) -> list[int]:
    """Return the items with damaged columns or passages, whose bodies are intact."""
    rows = set(examined.bad_columns)
    rows |= {row for passage in examined.bad_passages for (row,) in connection.execute(_ITEM_OF, (passage,))}
    # A passage whose own reference to its item is what was damaged would be left behind.
    for table in ("vectors", "tokens", "passages"):
        connection.executemany(f"DELETE FROM {table} WHERE passage = ?", [(each,) for each in examined.bad_passages])
    rows |= {row for (row,) in connection.execute(_WITHOUT_PASSAGES)}
    return sorted(rows)


def _store_again(connection: sqlite3.Connection, rows: list[int], examined: Examination, kind: str) -> list[str]:
    """Store items again, as the newest: the numbers of passages follow those of items."""
    stored = 0
    for row in rows:
        found = connection.execute("SELECT CAST(body AS BLOB) FROM items WHERE row = ?", (row,)).fetchone()
        if found is None or row in examined.unreadable:
            continue
        connection.execute("DELETE FROM items WHERE row = ?", (row,))
        prepared = PreparedItem.of(load_item_json(found[0]))
        insert_item(connection, prepared, waiting=bool(examined.facts.get("model")))
        stored += 1
    return [f"{stored:,} items {kind} were stored again"] if stored else []


def _drop_vectors(connection: sqlite3.Connection, examined: Examination) -> list[str]:
    """Delete every vector of the items with a damaged one, so that they wait for new ones."""
    rows = {row for passage in examined.bad_vectors for (row,) in connection.execute(_ITEM_OF, (passage,))}
    for row in rows:
        for table in ("vectors", "tokens"):
            connection.execute(
                f"DELETE FROM {table} WHERE passage IN (SELECT passage FROM passages WHERE row = ?)", (row,)
            )
        connection.execute("UPDATE items SET waiting = 1 WHERE row = ?", (row,))
    return [f"{len(rows):,} items with damaged vectors wait for new ones"] if rows else []
