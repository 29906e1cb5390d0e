"""Large attachments in a table of their own, once for all items with the same content."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Final, TypeVar

import psycopg

from devmem.model.items import MemoryItem
from devmem.model.message import AttachmentRef
from devmem.storage.attachments import large_content, map_attachments
from devmem.storage.postgres.database import (
    Access,
    Connection,
    composed,
    connect,
    read_text,
    stored_text,
    translate_errors,
)
from devmem.storage.postgres.rows import key_of
from devmem.storage.postgres.schema import dropped
from devmem.storage.postgres.transactions import Database, read_store
from devmem.storage.protocol import StateKey
from devmem.text.patterns import lazy_pattern

# No base64 begins with @.
_STORED: Final = lazy_pattern(r"(data:[^,]*;base64,)@([0-9a-f]{64})", re.IGNORECASE)


def externalized(item: MemoryItem) -> tuple[MemoryItem, dict[str, bytes]]:
    """Return the item with references in place of its large attachments, and these by SHA-256."""
    contents: dict[str, bytes] = {}

    def externalize(ref: AttachmentRef) -> AttachmentRef:
        found = large_content(ref)
        if found is None:
            return ref
        head, content = found
        name = hashlib.sha256(content).hexdigest()
        contents[name] = content
        return replace(ref, data_uri=f"{head}@{name}")

    return map_attachments(item, externalize), contents


def insert_attachments(
    connection: Connection, store: int, rows: Sequence[int], contents: Sequence[Mapping[str, bytes]]
) -> None:
    """Insert the attachments of new items, by their rows; those that are there already are used again."""
    every = {name: content for each in contents for name, content in each.items()}
    if not every:
        return
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO attachments(store, sha256, content) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            [(store, name, every[name]) for name in sorted(every)],
        )
        cursor.executemany(
            "INSERT INTO attachment_uses(store, sha256, row) VALUES (%s, %s, %s)",
            [(store, name, row) for row, each in zip(rows, contents, strict=True) for name in each],
        )


def delete_unused(connection: Connection, store: int, names: Sequence[str]) -> None:
    """Delete those of the attachments that no item uses any more."""
    connection.execute(
        "DELETE FROM attachments AS kept WHERE store = %s AND sha256 = ANY(%s) AND NOT EXISTS ("
        "SELECT FROM attachment_uses AS used WHERE used.store = kept.store AND used.sha256 = kept.sha256)",
        (store, list(names)),
    )


def inlined(items: Sequence[MemoryItem], read: Callable[[Sequence[str]], Mapping[str, bytes]]) -> list[MemoryItem]:
    """Return the items with their attachments as they were stored; `read` returns contents by SHA-256."""
    wanted = {found[2] for item in items for ref in _references(item) if (found := _stored(ref))}
    if not wanted:
        return list(items)
    contents = read(sorted(wanted))

    def inline(ref: AttachmentRef) -> AttachmentRef:
        found = _stored(ref)
        if found is None or found[2] not in contents:
            return ref
        return replace(ref, data_uri=found[1] + base64.b64encode(contents[found[2]]).decode("ascii"))

    return [map_attachments(item, inline) for item in items]


def read_attachments(connection: Connection, store: int, names: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of attachments by SHA-256."""
    query = "SELECT sha256, content FROM attachments WHERE store = %s AND sha256 = ANY(%s)"
    return dict(connection.execute(query, (store, list(names))).fetchall())


def _stored(ref: AttachmentRef) -> re.Match[str] | None:
    return None if ref.data_uri is None else _STORED.fullmatch(ref.data_uri)


def _references(item: MemoryItem) -> Iterable[AttachmentRef]:
    for snapshot in (item.input_snapshot, item.output_snapshot):
        for kept in snapshot.blocks if snapshot else ():
            if kept.block.attachment is not None:
                yield kept.block.attachment


T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_SELECT: Final = (
    "SELECT kind, name, value FROM states JOIN unnest(%s::text[], %s::uuid[]) AS wanted(kind, name_key) "
    "USING (kind, name_key) WHERE store = %s"
)
_UPSERT: Final = (
    "INSERT INTO states(store, kind, name_key, name, value) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT (store, kind, name_key) DO UPDATE SET value = excluded.value, version = states.version + 1"
)
_DELETE: Final = "DELETE FROM states WHERE store = %s AND kind = %s AND name_key = %s"


class PostgresStates:
    """The values of one store; `StateTable` documents the methods."""

    def __init__(self, database: Database, access: Access, store: int) -> None:
        self._database, self._access, self._store = database, access, store
        self._location = str(access.location)

    def _read(self, operation: Callable[[Connection], T]) -> T:
        return read_store(self._database, self._location, self._store, operation)

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there."""
        return self._read(lambda connection: _read(connection, self._store, keys))

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind."""
        query = "SELECT name FROM states WHERE store = %s AND kind = %s ORDER BY name"
        found = self._read(lambda connection: connection.execute(query, (self._store, kind)).fetchall())
        return [read_text(name) or "" for (name,) in found]

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind."""
        query = "SELECT name, value FROM states WHERE store = %s AND kind = %s ORDER BY name"
        found = self._read(lambda connection: connection.execute(query, (self._store, kind), binary=True).fetchall())
        return ((read_text(name) or "", value) for name, value in found)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction."""

        def write(connection: Connection) -> bool:
            if expected:
                there = _read(connection, self._store, list(expected))
                if any(there.get(key) != value for key, value in expected.items()):
                    return False
            _write(connection, self._store, values)
            return True

        return self._database.write(write)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Hold an advisory lock in a transaction on its own connection, which a pooler ends with nobody else's."""
        with translate_errors(self._location):
            connection = connect(self._access)
        with closing(connection):
            with translate_errors(self._location):
                # Waiting, and what is excluded, may take as long as it takes.
                connection.execute(
                    composed(
                        f"BEGIN; {self._access.settings(writes=True)}; SET LOCAL lock_timeout = 0; "
                        "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
                    )
                )
                # The store of another schema may have the same number.
                named = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || %s, 0))"
                connection.execute(named, (f"{self._store} {purpose}",))
                if connection.execute("SELECT FROM stores WHERE store = %s", (self._store,)).fetchone() is None:
                    raise dropped(self._location)
            yield
            try:
                connection.execute("COMMIT")
            except psycopg.Error:
                _LOG.warning(
                    "%s: the connection that excluded others from %s was lost; another process may have done the same "
                    "meanwhile.",
                    self._location, purpose,
                )  # fmt: skip


def _read(connection: Connection, store: int, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
    kinds, names = [kind for kind, _ in keys], [key_of(name) for _, name in keys]
    found = connection.execute(_SELECT, (kinds, names, store), binary=True).fetchall()
    return {(kind, read_text(name) or ""): value for kind, name, value in found}


def _write(connection: Connection, store: int, values: Mapping[StateKey, bytes | None]) -> None:
    kept = [
        (store, kind, key_of(name), stored_text(name), value)
        for (kind, name), value in values.items()
        if value is not None
    ]
    gone = [(store, kind, key_of(name)) for (kind, name), value in values.items() if value is None]
    with connection.cursor() as cursor:
        if kept:
            cursor.executemany(_UPSERT, kept)
        if gone:
            cursor.executemany(_DELETE, gone)
