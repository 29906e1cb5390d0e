"""Inserting rows into several tables at once: by COPY where they are many, in one round trip where they are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.pipelining import pipelined

_FEW: Final = 50
"""Number of rows of a table up to which INSERT is faster: a COPY waits for the server twice."""

Row: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """Rows for one table."""

    table: str
    columns: tuple[str, ...]
    """Names of the columns, quoted where they have to be."""
    types: tuple[str, ...]
    """Type of each column."""
    rows: Sequence[Row]


def insert_rows(connection: Connection, insertions: Sequence[Insertion]) -> None:
    """Insert the rows of each table, within the connection's transaction."""
    wanted = [each for each in insertions if each.rows]
    if max((len(each.rows) for each in wanted), default=0) > _FEW and not _is_secured(connection, wanted):
        for each in wanted:
            _copy(connection, each)
    elif wanted:
        with pipelined(connection), connection.cursor() as cursor:
            for each in wanted:
                cursor.executemany(composed(_insert(each)), each.rows)


def _is_secured(connection: Connection, insertions: Sequence[Insertion]) -> bool:
    """Whether row-level security restricts this user, in which case the server refuses COPY."""
    query = "SELECT bool_or(row_security_active(name)) FROM unnest(%s::text[]) AS name"
    ((found,),) = connection.execute(query, ([each.table for each in insertions],)).fetchall()
    return bool(found)


def _insert(insertion: Insertion) -> str:
    marks = ", ".join(f"%s::{each}" for each in insertion.types)
    return f"INSERT INTO {insertion.table}({', '.join(insertion.columns)}) VALUES ({marks})"


def _copy(connection: Connection, insertion: Insertion) -> None:
    query = f"COPY {insertion.table}({', '.join(insertion.columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(composed(query)) as copy:
        copy.set_types(insertion.types)
        for row in insertion.rows:
            copy.write_row(row)
