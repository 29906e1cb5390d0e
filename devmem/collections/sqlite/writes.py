"""The operations of a write transaction."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.sqlite import database, rows
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.recorder import prune_changes
from devmem.collections.sqlite.sealing import sealed_transaction
from devmem.collections.transactions import write_transaction
from devmem.collections.unit_vectors import usable_embeddings
from devmem.embedding import PassageEmbeddings
from devmem.model.indexed_fields import has_text

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_SELECT_BODIES: Final = "SELECT row, CAST(body AS BLOB), body_checksum FROM items"


def commit(connection: sqlite3.Connection, attachments: AttachmentFiles | None, operation: Callable[[], T]) -> T:
    """Run an operation in a write transaction, then remove the attachments that no item refers to any more."""
    try:
        result = sealed_transaction(connection, operation)
    except BaseException:
        if attachments is not None:
            attachments.discard_released()
        raise
    if attachments is not None and attachments.released:
        _remove_released(connection, attachments)
    return result


def _remove_released(connection: sqlite3.Connection, attachments: AttachmentFiles) -> None:
    def remove() -> None:
        attachments.remove_released(lambda name: is_named(connection, name))

    try:
        # Under the write lock: nobody may begin to refer to a file while it is removed.
        write_transaction(connection, remove)
    except sqlite3.Error as error:
        # The deletion itself is committed.
        _LOG.warning("%s: attachments of deleted items were not removed (%s).", attachments.folder, error)
        attachments.discard_released()


def is_named(connection: sqlite3.Connection, name: str) -> bool:
    """Whether an item or a version refers to an attachment."""
    query = "SELECT 1 FROM {} WHERE instr(body, ?) LIMIT 1"
    tables = ("items", "versions")
    return any(connection.execute(query.format(table), (name,)).fetchone() is not None for table in tables)


def set_embeddings(connection: sqlite3.Connection, embeddings: Mapping[str, PassageEmbeddings]) -> int:
    """Store the embeddings of waiting items, by id; return the number of items that took theirs."""
    done = 0
    for item_id, encoding in embeddings.items():
        found = connection.execute(
            f"SELECT row, {rows.HASHED} FROM items WHERE id = ? AND waiting", (rows.sql_text(item_id),)
        ).fetchone()
        usable = usable_embeddings(item_id, encoding)
        if found is None or usable is None or not usable.is_of(rows.embedded_hash_of(*found[1:])):
            continue
        row = found[:1]
        passages = connection.execute("SELECT passage FROM passages WHERE row = ? ORDER BY passage", row).fetchall()
        rows.insert_embeddings(connection, [number for (number,) in passages], usable)
        for table in ("main.items", "main.versions"):
            connection.execute(f"UPDATE {table} SET waiting = 0 WHERE row = ?", row)
        connection.execute("INSERT INTO changes(row, kind) VALUES (?, 'embedded')", row)
        done += 1
    if done:
        prune_changes(connection)
    return done


def await_embeddings(connection: sqlite3.Connection, damaged: DamagedRows) -> None:
    """Delete the vectors that were found damaged and let their items wait for new ones."""
    for passage in damaged.take("vectors"):
        connection.execute("DELETE FROM vectors WHERE passage = ?", (passage,))
        connection.execute(
            "UPDATE items SET waiting = 1 WHERE row = (SELECT row FROM passages WHERE passage = ?)", (passage,)
        )


def replace_model(connection: sqlite3.Connection, model: str, dimension: int | None, damaged: DamagedRows) -> int:
    """Delete every embedding and record the new model; return the number of items that wait for it."""
    connection.execute("DELETE FROM vectors")
    connection.execute("DELETE FROM tokens")
    done = connection.execute(f"{_SELECT_BODIES} WHERE NOT waiting").fetchall()
    items = ((row, rows.item_from_row(damaged, row, *rest)) for row, *rest in done)
    with_text = [(row,) for row, item in items if item is not None and has_text(item)]
    connection.executemany("UPDATE items SET waiting = 1 WHERE row = ?", with_text)
    database.set_meta(connection, "model", model)
    database.set_meta(connection, "dimension", dimension)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    return int(connection.execute("SELECT count(*) FROM items WHERE waiting").fetchone()[0])
