"""Items as database rows, and filters as SQL."""

from __future__ import annotations

import sqlite3
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from devmem.collections.postings import encode_terms
from devmem.collections.protocol import Filter
from devmem.items import MemoryItem, Scope, Vector, dump_item_json, load_item_json

_COLUMNS: Final = (
    "id, content_hash, created_at, event_time, expires_at, trust, agent, user, session, conversation, trace, run, "
    "source_kind, source_name, waiting, body, term_hashes, term_counts, term_length"
)
INSERT_ITEM: Final = f"INSERT INTO items({_COLUMNS}) VALUES ({', '.join('?' * 19)})"
SELECT_WHOLE: Final = "SELECT items.row, body, vector FROM items LEFT JOIN vectors ON vectors.row = items.row"
"""Gives the row number, then what `from_row` takes."""
INSERT_VECTOR: Final = "INSERT OR REPLACE INTO vectors(row, vector) VALUES (?, ?)"


def to_row(item: MemoryItem, *, waiting: bool) -> tuple[Any, ...]:
    """Give the values of `INSERT_ITEM`."""
    encoded = encode_terms(item.full_text())
    scope = item.scope
    return (
        item.id,
        item.content_hash,
        item.created_at,
        item.event_time,
        item.expires_at,
        item.trust,
        scope.agent,
        scope.user,
        scope.session,
        scope.conversation,
        scope.trace,
        scope.run,
        item.provenance.kind.value,
        item.provenance.name,
        int(waiting),
        dump_item_json(item).decode(),
        encoded.hashes,
        encoded.counts,
        encoded.length,
    )


def vector_bytes(vector: Vector) -> bytes:
    """Give the vector as the database keeps it: float32, little-endian."""
    return np.asarray(vector, dtype="<f4").tobytes()


def vector_from(raw: bytes) -> Vector:
    """Read what `vector_bytes` gave."""
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)


def from_row(body: str, vector: bytes | None = None) -> MemoryItem:
    """Make the item of a row's body, with its embedding when that was asked for."""
    item = load_item_json(body)
    return item if vector is None else replace(item, embedding=vector_from(vector))


def where_sql(where: Filter, now: float) -> tuple[str, list[object]]:
    """Give the condition on `items` and its parameters; expired items never match.

    `now` is in seconds since the epoch.
    """
    conditions: list[str] = ["(expires_at IS NULL OR expires_at > ?)"]
    values: list[object] = [now]
    clauses: list[tuple[str, object]] = [
        (
            f"({part.name} = ? OR {part.name} IS NULL)" if where.or_unbound else f"{part.name} = ?",
            getattr(where.scope, part.name),
        )
        for part in fields(Scope)
    ]
    clauses += [
        ("COALESCE(event_time, created_at) >= ?", where.after),
        ("COALESCE(event_time, created_at) < ?", where.before),
        ("source_kind = ?", where.source_kind),
        ("source_name = ?", where.source_name),
        ("trust >= ?", where.min_trust or None),
    ]
    for clause, value in clauses:
        if value is not None:
            conditions.append(clause)
            values.append(value)
    for key, value in where.metadata.items():
        # A path such as $.metadata."key" cannot name every key: SQLite takes no escapes in it.
        conditions.append(
            "EXISTS (SELECT 1 FROM json_each(body, '$.metadata') AS entry "
            f"WHERE entry.key = ? AND entry.type IN {_json_types(value)} AND entry.atom = ?)"
        )
        values += [key, _comparable(value)]
    return " AND ".join(conditions), values


def _json_types(value: str | float) -> str:
    """Name what JSON calls such a value: true is no number there."""
    if isinstance(value, bool):
        return "('true', 'false')"
    return "('text')" if isinstance(value, str) else "('integer', 'real')"


def _comparable(value: str | float) -> str | float:
    """Give the value as SQLite reads it from JSON: an integer of more than 64 bits is a float there."""
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def fetch_items(connection: sqlite3.Connection, rows: list[int]) -> dict[int, MemoryItem]:
    """Read some items by row number, without their embeddings."""
    found: dict[int, MemoryItem] = {}
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        marks = ", ".join("?" * len(part))
        query = f"SELECT row, body FROM items WHERE row IN ({marks})"
        found |= {row: from_row(body) for row, body in connection.execute(query, part)}
    return found
