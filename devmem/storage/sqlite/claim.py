"""Check that a file, a store type and an embedding model belong together, and record what is not known yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from devmem.model.items import load_item_json
from devmem.models.embedder import ModelIdentity
from devmem.storage.searching import check_model, check_store_type, is_replaceable
from devmem.storage.sidecar_db import read_transaction, write_transaction
from devmem.storage.sqlite.database import check_header, read_header, read_meta, set_meta
from devmem.storage.sqlite.tables import passages_of_row, update_terms
from devmem.storage.writing import PreparedItem, speaker_of
from devmem.text.analysis import ANALYSIS_VERSION
from devmem.text.cues import cues_of_item


def refresh_analysis(connection: sqlite3.Connection) -> None:
    """Replace terms, cues and speaker of every version when they are of another version of the text analysis."""
    if read_meta(connection)["analysis"] == ANALYSIS_VERSION:
        return
    for row, body in connection.execute("SELECT row, CAST(body AS BLOB) FROM items").fetchall():
        item = load_item_json(body)
        for passage, encoded in zip(passages_of_row(connection, row), PreparedItem.of(item).terms(), strict=True):
            update_terms(connection, passage, encoded)
        values = (int(cues_of_item(item)), speaker_of(item), row)
        connection.execute("UPDATE items SET cues = ?, speaker = ? WHERE row = ?", values)
    set_meta(connection, "analysis", ANALYSIS_VERSION)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def claim_file(
    connection: sqlite3.Connection,
    location: str,
    model: ModelIdentity | None,
    store_type: str | None,
    *,
    read_only: bool = False,
) -> bool:
    """Check that file, store type and model belong together, and record those that were not known yet.

    Return whether the collection has a model. A file that can only be read is checked as `prepare_schema` does, too.

    Raises:
        CollectionDamagedError: the file is not devmem's, or was cut off.
        CollectionInUseError: the file belongs to another store type.
        EmbeddingMismatchError: its embeddings are of another model.
    """
    if read_only:
        check_header(connection, location, read_transaction(connection, read_header, connection))
    meta = read_meta(connection)
    owner = meta["store_type"]
    check_store_type(location, owner=None if owner is None else str(owner), wanted=store_type)
    if read_only or (_is_recorded(meta, model, store_type) and not _replaceable(meta, model)):
        # Opening takes no write lock then: it does not wait for another process.
        return _claim_model(connection, location, model, read_only=read_only)

    def record() -> bool:
        if store_type and not owner:
            set_meta(connection, "store_type", store_type)
        refresh_analysis(connection)
        return _claim_model(connection, location, model, read_only=False)

    return write_transaction(connection, record)


WORDS_ONLY: Final = "words_only"
"""Property of a collection that has no model on purpose; one that has a model disregards it."""


def record_words_only(connection: sqlite3.Connection) -> None:
    """Record that a collection has no model on purpose, unless it has one."""
    if read_meta(connection).get("model") is None:
        set_meta(connection, WORDS_ONLY, 1)


def _is_recorded(meta: Mapping[str, str | int | None], model: ModelIdentity | None, store_type: str | None) -> bool:
    """Whether nothing about the collection is left to record."""
    return (
        meta["analysis"] == ANALYSIS_VERSION
        and (store_type is None or meta["store_type"] is not None)
        and (model is None or meta.get("model") is not None)
    )


def _replaceable(meta: Mapping[str, str | int | None], model: ModelIdentity | None) -> bool:
    recorded, dimension = meta.get("model"), meta.get("dimension")
    return is_replaceable(
        model,
        recorded=None if recorded is None else str(recorded),
        dimension=None if dimension is None else int(dimension),
    )


def _claim_model(
    connection: sqlite3.Connection, location: str, model: ModelIdentity | None, *, read_only: bool
) -> bool:
    """Record the model of a collection that has none, or compare; return whether there is a model now."""
    meta = read_meta(connection)
    recorded = meta.get("model")
    if model is None:
        return recorded is not None
    if recorded is None or _replaceable(meta, model):
        if not read_only:
            set_meta(connection, "model", model.name)
            set_meta(connection, "dimension", model.dimension)
            connection.execute("UPDATE items SET refusal = NULL WHERE refusal IS NOT NULL")
        return True
    dimension = meta.get("dimension")
    check_model(location, model, recorded=str(recorded), dimension=None if dimension is None else int(dimension))
    return True
