"""The operations of a write transaction."""

from __future__ import annotations

from collections.abc import Mapping

from devmem.collections.filter_sql import Sql
from devmem.collections.item_columns import stored_hash
from devmem.collections.postgres import rows
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.existence import require_store
from devmem.collections.postgres.inserting import NewEmbeddings, insert_embeddings
from devmem.collections.postgres.locks import lock
from devmem.collections.postgres.rows import CURRENT, Tables
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.hnsw import drop_hnsw
from devmem.collections.unit_vectors import usable_embeddings
from devmem.embedding import PassageEmbeddings
from devmem.model.indexed_fields import has_text


def set_embeddings(
    connection: Connection,
    store: int,
    embeddings: Mapping[str, PassageEmbeddings],
    tables: Tables = CURRENT,
    which: Sql = ("true", []),
) -> int:
    """Store the embeddings of waiting items, by id; return the number of items that took theirs.

    Args:
        connection: in a write transaction.
        store: number of the store.
        embeddings: embeddings by id.
        tables: where the items are.
        which: restricts the items.
    """
    condition, values = which
    keys = {rows.key_of(item_id): item_id for item_id in embeddings}
    waiting = connection.execute(
        composed(
            f"SELECT id_key, row, {rows.HASHED}, "
            f"(SELECT count(*) FROM {tables.passages} AS passages WHERE passages.store = items.store "
            f"AND passage >= items.row << {PASSAGE_BITS} AND passage < (items.row + 1) << {PASSAGE_BITS}) "
            f"FROM {tables.items} AS items WHERE store = %s AND id_key = ANY(%s) AND waiting AND {condition} "
            "ORDER BY row FOR UPDATE"
        ),
        (store, list(keys), *values),
    ).fetchall()
    usable: list[NewEmbeddings] = []
    for key, row, content_hash, body, passages in waiting:
        found = usable_embeddings(keys[key], embeddings[keys[key]])
        if found is not None and found.is_of(stored_hash(content_hash, body)):
            usable.append(NewEmbeddings(row, passages, found))
    insert_embeddings(connection, store, usable, tables)
    done = [each.row for each in usable]
    if done:
        done_now = composed(f"UPDATE {tables.items} SET waiting = false WHERE store = %s AND row = ANY(%s)")
        connection.execute(done_now, (store, done))
        connection.execute(
            "INSERT INTO changes(store, row, kind) SELECT %s, row, 'embedded' FROM unnest(%s::bigint[]) AS row",
            (store, done),
        )
    return len(done)


def replace_model(connection: Connection, location: str, store: int, model: str, dimension: int | None) -> int:
    """Delete every embedding and record the new model; return the number of items that wait for it.

    Raises:
        CollectionError: the store was dropped; `location` is named.
    """
    lock(connection, "store", store)
    require_store(connection, location, store)
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute(
        composed(
            "UPDATE versions SET waiting = true WHERE store = %(store)s AND row IN "
            f"(SELECT passage >> {PASSAGE_BITS} FROM version_vectors WHERE store = %(store)s)"
        ),
        {"store": store},
    )
    for table in ("version_vectors", "version_tokens"):
        connection.execute(composed(f"DELETE FROM {table} WHERE store = %s"), (store,))
    connection.execute("DELETE FROM vectors WHERE store = %s", (store,))
    connection.execute("DELETE FROM tokens WHERE store = %s", (store,))
    connection.execute("DELETE FROM vector_codes WHERE store = %s", (store,))
    drop_hnsw(connection, store)
    with_text = [row for row, body in rows.each_body(connection, store) if has_text(rows.item_from(body))]
    connection.execute(
        "UPDATE items SET waiting = true WHERE store = %s AND NOT waiting AND row = ANY(%s)", (store, with_text)
    )
    connection.execute(
        "UPDATE stores SET model = %s, dimension = %s, generation = generation + 1 WHERE store = %s",
        (model, dimension, store),
    )
    query = "SELECT count(*) FROM items WHERE store = %s AND waiting"
    return int((connection.execute(query, (store,)).fetchone() or (0,))[0])
