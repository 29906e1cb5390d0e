"""The store type and the embedding model that a database belongs to."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from devmem.collections.model_check import check_model, check_store_type, is_replaceable
from devmem.collections.sqlite import database
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.reanalysis import refresh_analysis
from devmem.collections.sqlite.sealing import sealed_transaction
from devmem.embedding import ModelIdentity
from devmem.text.analysis import ANALYSIS_VERSION


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
