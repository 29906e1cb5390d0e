"""The changes of runs as versions record them: also of runs that were never pending."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from devmem.collections.sqlite.history import RECORDED_FROM
from devmem.collections.sqlite.rows import sql_text

TOUCHED: Final = (
    "SELECT id FROM main.items WHERE change_run = {run} UNION SELECT id FROM main.versions WHERE change_run = {run} "
    "UNION SELECT id FROM main.versions WHERE end_run = {run}"
)
"""Selects the ids of the items that a run changed, or is about to."""
_CHANGES: Final = (
    f"SELECT change_run AS run, {RECORDED_FROM} AS at FROM items WHERE change_run {{which}} "
    "UNION ALL SELECT change_run, recorded_from FROM versions WHERE change_run {which} AND recorded_until IS NOT NULL "
    "UNION ALL SELECT end_run, recorded_until FROM versions WHERE end_run {which}"
)
_SPAN: Final = f"SELECT min(at), max(at) FROM ({_CHANGES.format(which='= ?1')})"
_NEVER_PENDING: Final = (
    f"SELECT run, min(at), max(at) FROM ({_CHANGES.format(which='IS NOT NULL')}) "
    "WHERE run NOT IN (SELECT run FROM runs) GROUP BY run ORDER BY 2 DESC, run LIMIT ?"
)


def name_sql(run: str) -> str:
    """Return a run's id as an SQL literal."""
    return f"CAST(X'{(sql_text(run) or '').encode().hex()}' AS TEXT)"


def span(connection: sqlite3.Connection, run: str) -> tuple[int, int] | None:
    """Return the recorded times of a run's first and last committed change; None when no change of it is kept."""
    first, last = connection.execute(_SPAN, (sql_text(run),)).fetchone()
    return None if first is None else (first, last)


def never_pending(connection: sqlite3.Connection, limit: int) -> Iterator[tuple[str, int, int]]:
    """Yield id, first and last recorded time of the newest runs whose changes were seen by all at once."""
    yield from connection.execute(_NEVER_PENDING, (limit,))
