"""The operations of a write transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from devmem.collections.filter_sql import Sql
from devmem.collections.postgres import rows
from devmem.collections.postgres.attachments import inlined, read_attachments
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.inserting import NewEmbeddings, insert_embeddings
from devmem.collections.postgres.locks import lock
from devmem.collections.postgres.predicates import where_sql
from devmem.collections.postgres.recorder import FORGOTTEN, CurrentRecorder, Recorder, remove_versions
from devmem.collections.postgres.rows import CURRENT, Tables
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.hnsw import drop_hnsw
from devmem.collections.unit_vectors import usable_embeddings
from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.search.filters import Filter


def delete(recorder: Recorder, ids: Sequence[str] | None, where: Filter | None, now: float) -> int:
    """Delete the items with these ids that match the filter; None for either does not restrict. Return their number."""
    condition, values = selection(ids, where, now)
    return recorder.end(condition, values, FORGOTTEN)


def selection(ids: Sequence[str] | None, where: Filter | None, now: float) -> Sql:
    """Return the condition of items with these ids that match the filter; None for either does not restrict."""
    condition, values = where_sql(where, now) if where is not None else ("true", [])
    if ids is not None:
        return f"id_key = ANY(%s) AND {condition}", [list(map(rows.key_of, ids)), *values]
    return condition, values


def erase(recorder: CurrentRecorder, ids: Sequence[str] | None, where: Filter | None, now: float) -> int:
    """Delete items as `delete` does, and for good the versions that match with all others of items that are gone.

    The recorder keeps versions: as such, the items that match lead to their older versions, which need not match.
    Return the number of items.
    """
    deleted = delete(recorder, ids, where, now)
    condition, values = selection(ids, where, now)
    gone = (
        f"id_key IN (SELECT id_key FROM versions WHERE store = %s AND {condition}) "
        "AND NOT EXISTS (SELECT FROM items WHERE items.store = versions.store AND items.id_key = versions.id_key)"
    )
    remove_versions(
        recorder.connection, recorder.store, f"({condition}) OR ({gone})", [*values, recorder.store, *values]
    )
    return deleted


def pop(recorder: Recorder, count: int, where: Filter, now: float) -> list[MemoryItem]:
    """Delete the items that match and were stored last; return them with attachments, newest first."""
    condition, values = where_sql(where, now)
    # What another transaction deletes meanwhile is passed over, once that is committed.
    found = recorder.connection.execute(
        composed(
            f"{rows.SELECT_WHOLE} WHERE items.store = %s AND {condition} ORDER BY items.row DESC LIMIT %s "
            "FOR UPDATE OF items"
        ),
        (recorder.store, *values, max(count, 0)),
        binary=True,
    ).fetchall()
    items = inlined(
        [rows.item_from(body, vector) for _, body, vector in found],
        lambda names: read_attachments(recorder.connection, recorder.store, names),
    )
    if found:
        recorder.end("row = ANY(%s)", [[row for row, *_ in found]], FORGOTTEN)
    return items


def trim(recorder: Recorder, keep: int | None, stored_before: float | None, now: float) -> int:
    """Delete all but the newest items, and those stored before a time, for good; return their number.

    What had expired at `now` (seconds since the epoch) and is still there takes no item's place.
    """
    deleted = 0
    if stored_before is not None:
        deleted += recorder.remove("created_at < %s", [stored_before])
    if keep is not None:
        current = "(expires_at IS NULL OR expires_at > %s)"
        newest_surplus = f"SELECT row FROM items WHERE store = %s AND {current} ORDER BY row DESC OFFSET %s LIMIT 1"
        found = recorder.connection.execute(composed(newest_surplus), (recorder.store, now, max(keep, 0))).fetchone()
        if found is not None:
            deleted += recorder.remove(f"row <= %s AND {current}", [found[0], now])
    return deleted


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
            "SELECT id_key, row, content_hash, "
            f"(SELECT count(*) FROM {tables.passages} AS passages WHERE passages.store = items.store "
            f"AND passage >= items.row << {PASSAGE_BITS} AND passage < (items.row + 1) << {PASSAGE_BITS}) "
            f"FROM {tables.items} AS items WHERE store = %s AND id_key = ANY(%s) AND waiting AND {condition} "
            "ORDER BY row FOR UPDATE"
        ),
        (store, list(keys), *values),
    ).fetchall()
    usable: list[NewEmbeddings] = []
    for key, row, content_hash, passages in waiting:
        found = usable_embeddings(keys[key], embeddings[keys[key]])
        if found is not None and found.is_of(content_hash):
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


def replace_model(connection: Connection, store: int, model: str, dimension: int | None) -> int:
    """Delete every embedding and record the new model; return the number of items that wait for it."""
    lock(connection, "store", store)
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
    drop_hnsw(connection, store)
    with_text = [row for row, body in rows.each_body(connection, store) if rows.item_from(body).content_summary.strip()]
    connection.execute(
        "UPDATE items SET waiting = true WHERE store = %s AND NOT waiting AND row = ANY(%s)", (store, with_text)
    )
    connection.execute(
        "UPDATE stores SET model = %s, dimension = %s, generation = generation + 1 WHERE store = %s",
        (model, dimension, store),
    )
    query = "SELECT count(*) FROM items WHERE store = %s AND waiting"
    return int((connection.execute(query, (store,)).fetchone() or (0,))[0])
