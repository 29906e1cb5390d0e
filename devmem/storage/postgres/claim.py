"""The row of a store in the table `stores`: its number, its type and its embedding model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from devmem import telemetry
from devmem.errors import CollectionError
from devmem.models.embedder import ModelIdentity
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.tables import refresh_analysis
from devmem.storage.searching import check_model, check_store_type, is_replaceable
from devmem.text.analysis import ANALYSIS_VERSION

_SELECT: Final = "SELECT store_type, analysis, model, dimension FROM stores WHERE store = %s"


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """A store as it is recorded."""

    store_type: str | None
    analysis: str
    """Version of the text analysis that made the terms."""
    model: str | None
    dimension: int | None


def claim_store(
    connection: Connection, location: Location, model: ModelIdentity | None, store_type: str | None
) -> None:
    """Check that store, store type and model belong together, and record those that were not known yet.

    `connection` is in a write transaction.

    Raises:
        CollectionInUseError: the store is of another type.
        EmbeddingMismatchError: its embeddings are of another model.
    """
    store = location.number
    found = _find(connection, store)
    if found is None:
        with telemetry.memory_operation("create_memory_store", location.store, (location.shown,)):
            connection.execute(
                "INSERT INTO stores(store, tenant, name, analysis) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (store, location.tenant, location.store, ANALYSIS_VERSION),
            )
            found = _find(connection, store)
    if found is not None and not _is_recorded(found, model, store_type):
        # Others may be recording the same, or storing the first vector.
        connection.execute("SELECT FROM stores WHERE store = %s FOR UPDATE", (store,))
        found = _find(connection, store)
        if found is not None:
            _check(location, found, model, store_type)
            _record(connection, store, found, model, store_type)
            found = _find(connection, store)
    if found is None:
        raise CollectionError(str(location), "the store was dropped while it was being opened.")
    _check(location, found, model, store_type)


def _find(connection: Connection, store: int) -> StoreRecord | None:
    row = connection.execute(_SELECT, (store,)).fetchone()
    return StoreRecord(*row) if row else None


def _check(location: Location, found: StoreRecord, model: ModelIdentity | None, store_type: str | None) -> None:
    check_store_type(str(location), owner=found.store_type, wanted=store_type)
    if model is not None and found.model is not None and not _is_replaceable(found, model):
        check_model(str(location), model, recorded=found.model, dimension=found.dimension)


def _is_recorded(found: StoreRecord, model: ModelIdentity | None, store_type: str | None) -> bool:
    """Whether nothing about the store is left to record."""
    return (
        found.analysis == ANALYSIS_VERSION
        and (store_type is None or found.store_type is not None)
        and (model is None or found.model is not None)
        and not _is_replaceable(found, model)
    )


def _is_replaceable(found: StoreRecord, model: ModelIdentity | None) -> bool:
    return is_replaceable(model, recorded=found.model, dimension=found.dimension)


def _record(
    connection: Connection, store: int, found: StoreRecord, model: ModelIdentity | None, store_type: str | None
) -> None:
    if found.analysis != ANALYSIS_VERSION:
        connection.execute("SET LOCAL statement_timeout = 0")
        refresh_analysis(connection, store)
        connection.execute("UPDATE stores SET analysis = %s WHERE store = %s", (ANALYSIS_VERSION, store))
    if found.store_type is None and store_type is not None:
        connection.execute("UPDATE stores SET store_type = %s WHERE store = %s", (store_type, store))
    if model is not None and (found.model is None or _is_replaceable(found, model)):
        connection.execute(
            "UPDATE stores SET model = %s, dimension = %s WHERE store = %s", (model.name, model.dimension, store)
        )
        connection.execute("UPDATE items SET refusal = NULL WHERE store = %s AND refusal IS NOT NULL", (store,))


_WORDS_ONLY: Final = ("devmem", "words_only")
"""Kind and name of the state of a store that has no model on purpose; one that has a model disregards it."""
SELECT_WORDS_ONLY: Final = (
    "SELECT FROM {} AS state WHERE state.store = store.store AND (state.kind, state.name) "
    f"= ('{_WORDS_ONLY[0]}', '{_WORDS_ONLY[1]}')"
)
"""Selects something for such a store, from a table of states."""


def record_words_only(connection: Connection, store: int) -> None:
    """Record that a store has no model on purpose, unless it has one."""
    kind, name = _WORDS_ONLY
    connection.execute(
        "INSERT INTO states(store, kind, name, value) SELECT store, %s, %s, '1' FROM stores "
        "WHERE store = %s AND model IS NULL ON CONFLICT DO NOTHING",
        (kind, name, store),
    )
