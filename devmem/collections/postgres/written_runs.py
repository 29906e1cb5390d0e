"""The changes of runs as versions record them: also of runs that were never pending."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.shown import RECORDED_FROM
from devmem.collections.postgres.texts import stored_text

TOUCHED: Final = (
    "SELECT id_key FROM items WHERE store = %(store)s AND change_run = %(run)s "
    "UNION SELECT id_key FROM versions WHERE store = %(store)s AND (change_run = %(run)s OR end_run = %(run)s)"
)
"""Selects the keys of the items that a run changed, or is about to."""
_CHANGES: Final = (
    f"SELECT change_run AS run, {RECORDED_FROM} AS at FROM items WHERE store = %(store)s AND change_run {{which}} "
    "UNION ALL SELECT change_run, recorded_from FROM versions "
    "WHERE store = %(store)s AND change_run {which} AND recorded_until IS NOT NULL "
    "UNION ALL SELECT end_run, recorded_until FROM versions WHERE store = %(store)s AND end_run {which}"
)
_SPAN: Final = f"SELECT min(at), max(at) FROM ({_CHANGES.format(which='= %(run)s')}) AS changes"
_NEVER_PENDING: Final = (
    f"SELECT run, min(at), max(at) FROM ({_CHANGES.format(which='IS NOT NULL')}) AS changes "
    "WHERE run NOT IN (SELECT run FROM runs WHERE store = %(store)s) GROUP BY run ORDER BY 2 DESC, run LIMIT %(limit)s"
)


def touched(connection: Connection, store: int, run: str) -> int:
    """Return the number of items that a run changed, or is about to."""
    query = composed(f"SELECT count(*) FROM ({TOUCHED}) AS touched")
    ((count,),) = connection.execute(query, {"store": store, "run": stored_text(run)}).fetchall()
    return int(count)


def span(connection: Connection, store: int, run: str) -> tuple[int, int] | None:
    """Return the recorded times of a run's first and last committed change; None when no change of it is kept."""
    ((first, last),) = connection.execute(composed(_SPAN), {"store": store, "run": stored_text(run)}).fetchall()
    return None if first is None else (first, last)


def never_pending(connection: Connection, store: int, limit: int) -> Iterator[tuple[str, int, int]]:
    """Yield id, first and last recorded time of the newest runs whose changes were seen by all at once."""
    yield from connection.execute(composed(_NEVER_PENDING), {"store": store, "limit": limit})
