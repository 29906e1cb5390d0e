"""Check that the vectors of a collection are of one model."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final

from devmem.model.items import MemoryItem
from devmem.models.embedder import ModelIdentity, PassageEmbeddings
from devmem.storage.protocol import PreparedItem
from devmem.storage.searching import check_length, check_model, check_name, check_store_type, is_replaceable
from devmem.storage.sqlite import database, rows
from devmem.storage.sqlite.database import sealed_transaction
from devmem.storage.sqlite.rows import ITEM_CHECKSUM, DamagedRows
from devmem.text.analysis import ANALYSIS_VERSION
from devmem.text.cues import cues_of


def check_embeddings(
    connection: sqlite3.Connection, location: str, model: str | None, embeddings: Iterable[PassageEmbeddings | None]
) -> None:
    """Refuse embeddings of another model or length; the first embedding of all sets the length.

    Args:
        connection: in a write transaction.
        location: location of the collection, for the error.
        model: name of the model that made the embeddings; None when it is not known.
        embeddings: embeddings that are to be stored.

    Raises:
        EmbeddingMismatchError: the model or the length is another.
    """
    lengths = {encoding.vectors.shape[1] for encoding in embeddings if encoding is not None}
    if not lengths:
        return
    meta = database.read_meta(connection)
    check_name(location, made=meta.get("model"), given=model)
    recorded = meta.get("dimension")
    if recorded is None:
        recorded = min(lengths)
        database.set_meta(connection, "dimension", recorded)
    for length in lengths:
        check_length(location, made=int(recorded), given=length)


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


def claim_file(
    connection: sqlite3.Connection,
    location: str,
    model: ModelIdentity | None,
    store_type: str | None,
    damaged: DamagedRows,
) -> bool:
    """Check that file, store type and model belong together, and record those that were not known yet.

    Return whether the collection has a model.

    Raises:
        CollectionInUseError: the file belongs to another store type.
        EmbeddingMismatchError: its embeddings are of another model.
    """
    meta = database.read_sealed_meta(connection)
    owner = meta["store_type"]
    check_store_type(location, owner=None if owner is None else str(owner), wanted=store_type)
    if _is_recorded(meta, model, store_type) and not _is_replaceable(meta, model):
        # Opening takes no write lock then: it does not wait for another process.
        return _claim_model(connection, location, model)

    def record() -> bool:
        if store_type and not owner:
            database.set_meta(connection, "store_type", store_type)
        refresh_analysis(connection, damaged)
        return _claim_model(connection, location, model)

    return sealed_transaction(connection, record)


def _is_recorded(meta: Mapping[str, str | int | None], model: ModelIdentity | None, store_type: str | None) -> bool:
    """Whether nothing about the collection is left to record."""
    return (
        meta["analysis"] == ANALYSIS_VERSION
        and (store_type is None or meta["store_type"] is not None)
        and (model is None or meta.get("model") is not None)
    )


def _is_replaceable(meta: Mapping[str, str | int | None], model: ModelIdentity | None) -> bool:
    recorded, dimension = meta.get("model"), meta.get("dimension")
    return is_replaceable(
        model,
        recorded=None if recorded is None else str(recorded),
        dimension=None if dimension is None else int(dimension),
    )


def _claim_model(connection: sqlite3.Connection, location: str, model: ModelIdentity | None) -> bool:
    """Record the model of a collection that has none, or compare; return whether there is a model now."""
    meta = database.read_meta(connection)
    recorded = meta.get("model")
    if model is None:
        return recorded is not None
    if recorded is None or _is_replaceable(meta, model):
        database.set_meta(connection, "model", model.name)
        database.set_meta(connection, "dimension", model.dimension)
        return True
    dimension = meta.get("dimension")
    check_model(location, model, recorded=str(recorded), dimension=None if dimension is None else int(dimension))
    return True
