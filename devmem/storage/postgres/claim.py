"""The row of a store in the table `stores`: its number, its type and its embedding model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from devmem import telemetry
from devmem.errors import CollectionError
from devmem.models.embedder import EmbeddingRefusal, ModelIdentity, PassageEmbeddings
from devmem.storage.postgres.database import Connection, composed, pipelined
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.rows import key_of, refresh_analysis
from devmem.storage.postgres.schema import (
    PARTITIONED,
    is_secured,
    lock,
    lock_shared,
    partition_statements,
    require_store,
    secure,
)
from devmem.storage.postgres.server.merging import start_again
from devmem.storage.searching import check_length, check_model, check_name, check_store_type, is_replaceable
from devmem.text.analysis import ANALYSIS_VERSION

_SELECT = (
    "SELECT store, store_type, analysis, model, dimension, EXISTS (SELECT FROM search_states "
    "WHERE search_states.store = stores.store AND erased > cleaned) FROM stores WHERE tenant = %s AND name = %s"
)


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """A store as it is recorded."""

    store: int
    """Its number, with which its rows begin in every table."""
    store_type: str | None
    analysis: str
    """Version of the text analysis that made the terms."""
    model: str | None
    dimension: int | None
    uncleaned: bool
    """Whether the indexes in the database may have something of items that were erased."""


def claim_store(
    connection: Connection, location: Location, model: ModelIdentity | None, store_type: str | None
) -> StoreRecord:
    """Check that store, store type and model belong together, and record those that were not known yet.

    Raises:
        CollectionInUseError: the store is of another type.
        EmbeddingMismatchError: its embeddings are of another model.
    """
    found = _find(connection, location)
    if found is None or not _is_recorded(found, model, store_type):
        connection.execute("BEGIN")
        connection.execute("SET LOCAL statement_timeout = 0")
        lock(connection, "stores")
        found = _find(connection, location)
        if found is None:
            with telemetry.memory_operation("create_memory_store", location.store, (location.shown,)):
                found = _insert(connection, location)
        if _is_replaceable(found, model):
            # Somebody may be storing the first vector.
            lock(connection, "store", found.store)
            found = _find(connection, location) or found
        _check(location, found, model, store_type)
        _record(connection, found, model, store_type)
        connection.execute("COMMIT")
        found = _find(connection, location)
    if found is None:
        raise CollectionError(str(location), "the store was dropped while it was being opened.")
    _check(location, found, model, store_type)
    return found


def _find(connection: Connection, location: Location) -> StoreRecord | None:
    row = connection.execute(_SELECT, (location.tenant, location.store)).fetchone()
    return StoreRecord(*row) if row else None


def _insert(connection: Connection, location: Location) -> StoreRecord:
    connection.execute(
        "INSERT INTO stores(tenant, name, analysis) VALUES (%s, %s, %s)",
        (location.tenant, location.store, ANALYSIS_VERSION),
    )
    found = _find(connection, location)
    assert found is not None  # noqa: S101 - it was just inserted
    if location.partition:
        for statement in partition_statements(found.store):
            connection.execute(composed(statement))
        if is_secured(connection):
            secure(connection, [f"{table}_{found.store}" for table in PARTITIONED])
    return found


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


def _record(connection: Connection, found: StoreRecord, model: ModelIdentity | None, store_type: str | None) -> None:
    if found.analysis != ANALYSIS_VERSION:
        lock(connection, "store", found.store)
        refresh_analysis(connection, found.store)
        start_again(connection, found.store)
        connection.execute(
            "UPDATE stores SET analysis = %s, generation = generation + 1 WHERE store = %s",
            (ANALYSIS_VERSION, found.store),
        )
    if found.store_type is None and store_type is not None:
        connection.execute("UPDATE stores SET store_type = %s WHERE store = %s", (store_type, found.store))
    if model is not None and (found.model is None or _is_replaceable(found, model)):
        connection.execute(
            "UPDATE stores SET model = %s, dimension = %s WHERE store = %s", (model.name, model.dimension, found.store)
        )
        connection.execute("UPDATE items SET refusal = NULL WHERE store = %s AND refusal IS NOT NULL", (found.store,))


_WORDS_ONLY: Final = ("devmem.index", "words_only")
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
        "INSERT INTO states(store, kind, name_key, name, value) SELECT store, %s, %s, %s, '1' FROM stores "
        "WHERE store = %s AND model IS NULL ON CONFLICT DO NOTHING",
        (kind, key_of(name), name, store),
    )


StoreModel: TypeAlias = tuple[str | None, int | None]
"""Model of a store's embeddings, and their dimension; None where there is none yet."""


def check_store(connection: Connection, location: str, store: int) -> StoreModel:
    """Return model and dimension of a store, which until the transaction ends nobody drops, or embeds again.

    Raises:
        CollectionError: the store was dropped.
    """
    with pipelined(connection):
        lock_shared(connection, "store", store)
        return require_store(connection, location, store)


def check_embeddings(
    connection: Connection,
    location: str,
    store: int,
    model: str | None,
    embeddings: Iterable[PassageEmbeddings | EmbeddingRefusal | None],
    *,
    known: StoreModel | None = None,
) -> bool:
    """Refuse embeddings of another model or length; the first embedding of all sets the length.

    Until the transaction ends nobody replaces the model.

    Args:
        connection: in a write transaction.
        location: location of the collection, for the error.
        store: number of the store.
        model: name of the model that made the embeddings; None when it is not known.
        embeddings: embeddings that are to be stored.
        known: what `check_store` returned in this transaction; None asks it.

    Returns:
        Whether the store has a model.

    Raises:
        EmbeddingMismatchError: the model or the length is another.
        CollectionError: the store was dropped.
    """
    recorded, dimension = known or check_store(connection, location, store)
    lengths = {encoding.vectors.shape[1] for encoding in embeddings if isinstance(encoding, PassageEmbeddings)}
    if lengths:
        check_name(location, made=recorded, given=model)
        if dimension is None:
            connection.execute(
                "UPDATE stores SET dimension = COALESCE(dimension, %s) WHERE store = %s", (min(lengths), store)
            )
            dimension = check_store(connection, location, store)[1] or 0
        for length in lengths:
            check_length(location, made=dimension, given=length)
    return recorded is not None
