"""The operations of a write transaction."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from devmem.collections.postgres import rows
from devmem.collections.postgres.attachments import delete_unused, inlined, read_attachments
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.locks import lock
from devmem.collections.postgres.predicates import where_sql
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.hnsw import drop_hnsw
from devmem.collections.unit_vectors import usable_embeddings
from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.search.filters import Filter

_CHANGES_KEPT: Final = "1 hour"
"""A follower that did not ask for longer than this builds its indexes again."""
_SWEPT_AT_ONCE: Final = 200
"""Maximum number of expired items that one write removes."""
_PRUNED_EVERY: Final = 100
"""Mean number of deletions between two that prune the changes."""


def _of_gone(table: str) -> str:
    """Return the CTE that deletes the passages of deleted items from a table."""
    return (
        f"{table}_gone AS (DELETE FROM {table} USING gone WHERE {table}.store = %(store)s "
        f"AND passage >= gone.row << {PASSAGE_BITS} AND passage < (gone.row + 1) << {PASSAGE_BITS})"
    )


_DELETE: Final = f"""
WITH gone AS (DELETE FROM items WHERE store = %(store)s AND ({{condition}}) RETURNING row),
{_of_gone("passages")}, {_of_gone("vectors")}, {_of_gone("tokens")},
used AS (DELETE FROM attachment_uses AS use USING gone
    WHERE use.store = %(store)s AND use.row = gone.row RETURNING sha256),
recorded AS (INSERT INTO changes(store, row, kind) SELECT %(store)s, row, 'deleted' FROM gone)
SELECT (SELECT count(*) FROM gone), (SELECT array_agg(DISTINCT sha256) FROM used)
"""


def delete_rows(connection: Connection, store: int, condition: str, values: Sequence[object]) -> int:
    """Delete the items that match a condition with all that belongs to them; return their number."""
    named = {f"v{at}": value for at, value in enumerate(values)}
    query = _DELETE.format(condition=condition % tuple(f"%({name})s" for name in named) if named else condition)
    count, attachments = connection.execute(composed(query), {"store": store, **named}).fetchone() or (0, None)
    if attachments:
        delete_unused(connection, store, attachments)
    if count and random.randrange(_PRUNED_EVERY) == 0:  # noqa: S311 - nobody gains by guessing it
        prune_changes(connection, store)
    return int(count)


def prune_changes(connection: Connection, store: int) -> None:
    """Delete old changes; followers that may have missed one of them learn it from `changes_floor`."""
    connection.execute(
        "WITH old AS (DELETE FROM changes WHERE store = %(store)s AND at < now() - %(kept)s::interval RETURNING xact) "
        "UPDATE stores SET changes_floor = GREATEST(changes_floor, (SELECT max(xact) FROM old)) "
        "WHERE store = %(store)s AND EXISTS (SELECT FROM old)",
        {"store": store, "kept": _CHANGES_KEPT},
    )


def delete(connection: Connection, store: int, ids: Sequence[str] | None, where: Filter | None, now: float) -> int:
    """Delete the items with these ids that match the filter; None for either does not restrict. Return their number."""
    condition, values = where_sql(where, now) if where is not None else ("true", [])
    if ids is not None:
        condition, values = f"id_key = ANY(%s) AND {condition}", [list(map(rows.key_of, ids)), *values]
    return delete_rows(connection, store, condition, values)


def pop(connection: Connection, store: int, count: int, where: Filter, now: float) -> list[MemoryItem]:
    """Delete the items that match and were stored last; return them with attachments, newest first."""
    condition, values = where_sql(where, now)
    # What another transaction deletes meanwhile is passed over, once that is committed.
    found = connection.execute(
        composed(
            f"{rows.SELECT_WHOLE} WHERE items.store = %s AND {condition} ORDER BY items.row DESC LIMIT %s "
            "FOR UPDATE OF items"
        ),
        (store, *values, max(count, 0)),
        binary=True,
    ).fetchall()
    items = inlined(
        [rows.item_from(body, vector) for _, body, vector in found],
        lambda names: read_attachments(connection, store, names),
    )
    if found:
        delete_rows(connection, store, "row = ANY(%s)", [[row for row, *_ in found]])
    return items


def purge_expired(connection: Connection, store: int, now: float) -> None:
    """Delete some of the items that are past their `expires_at` at `now` (seconds since the epoch).

    At most `_SWEPT_AT_ONCE` go with one write, so that none is slow; what another transaction deletes is passed over.
    """
    query = (
        "SELECT row FROM items WHERE store = %s AND expires_at <= %s ORDER BY expires_at LIMIT %s "
        "FOR UPDATE SKIP LOCKED"
    )
    found = connection.execute(query, (store, now, _SWEPT_AT_ONCE)).fetchall()
    if found:
        delete_rows(connection, store, "row = ANY(%s)", [[row for (row,) in found]])


def trim(connection: Connection, store: int, keep: int | None, stored_before: float | None, now: float) -> int:
    """Delete all but the newest `keep` items, and those stored before a time; return their number.

    What had expired at `now` (seconds since the epoch) and is still there takes no item's place.
    """
    deleted = 0
    if stored_before is not None:
        deleted += delete_rows(connection, store, "created_at < %s", [stored_before])
    if keep is not None:
        current = "(expires_at IS NULL OR expires_at > %s)"
        newest_surplus = f"SELECT row FROM items WHERE store = %s AND {current} ORDER BY row DESC OFFSET %s LIMIT 1"
        found = connection.execute(newest_surplus, (store, now, max(keep, 0))).fetchone()
        if found is not None:
            deleted += delete_rows(connection, store, f"row <= %s AND {current}", [found[0], now])
    return deleted


def set_embeddings(connection: Connection, store: int, embeddings: Mapping[str, PassageEmbeddings]) -> int:
    """Store the embeddings of waiting items, by id; return the number of items that took theirs."""
    keys = {rows.key_of(item_id): item_id for item_id in embeddings}
    waiting = connection.execute(
        composed(
            "SELECT id_key, row, content_hash, (SELECT count(*) FROM passages WHERE passages.store = items.store "
            f"AND passage >= items.row << {PASSAGE_BITS} AND passage < (items.row + 1) << {PASSAGE_BITS}) "
            "FROM items WHERE store = %s AND id_key = ANY(%s) AND waiting ORDER BY row FOR UPDATE"
        ),
        (store, list(keys)),
    ).fetchall()
    done = []
    for key, row, content_hash, passages in waiting:
        usable = usable_embeddings(keys[key], embeddings[keys[key]])
        if usable is not None and usable.is_of(content_hash):
            rows.insert_embeddings(connection, store, row, passages, usable)
            done.append(row)
    if done:
        connection.execute("UPDATE items SET waiting = false WHERE store = %s AND row = ANY(%s)", (store, done))
        connection.execute(
            "INSERT INTO changes(store, row, kind) SELECT %s, row, 'embedded' FROM unnest(%s::bigint[]) AS row",
            (store, done),
        )
    return len(done)


def replace_model(connection: Connection, store: int, model: str, dimension: int | None) -> int:
    """Delete every embedding and record the new model; return the number of items that wait for it."""
    lock(connection, "store", store)
    connection.execute("SET LOCAL statement_timeout = 0")
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
