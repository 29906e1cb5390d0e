"""A SQLite file as a shard; see `ShardMethods`."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from devmem.models.embedder import PassageEmbeddings
from devmem.storage.shard import ShardMethods, StoredVersion, Tenant
from devmem.storage.sqlite import database, rows, writes
from devmem.storage.sqlite.rows import sql_text
from devmem.storage.sqlite.versions import SqliteVersions
from devmem.storage.sqlite.writes import CurrentVersionWriter, end_row, remove_versions
from devmem.storage.writing import HistoryLimit, PreparedItem

T = TypeVar("T")

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS shard_map(one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, "
    "value BLOB NOT NULL)"
)
_IS_THERE: Final = "SELECT 1 FROM main.sqlite_master WHERE name = 'shard_map'"


class SqliteShard(SqliteVersions, ShardMethods[sqlite3.Connection]):
    """A collection in a file, with the methods of `ShardCollection`."""

    _model: str | None

    @abstractmethod
    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

    def _read_map(self, connection: sqlite3.Connection) -> bytes | None:
        if connection.execute(_IS_THERE).fetchone() is None:
            return None
        found = connection.execute("SELECT value FROM shard_map").fetchone()
        return None if found is None else bytes(found[0])

    def _map_version(self, connection: sqlite3.Connection) -> int:
        if connection.execute(_IS_THERE).fetchone() is None:
            return 0
        found = connection.execute("SELECT version FROM shard_map").fetchone()
        return 0 if found is None else int(found[0])

    def _put_map(self, connection: sqlite3.Connection, value: bytes, version: int) -> None:
        connection.execute(_TABLE)
        connection.execute("INSERT OR REPLACE INTO shard_map(one, version, value) VALUES (1, ?, ?)", (version, value))

    def _lock_map(self, connection: sqlite3.Connection) -> None:
        """Do nothing: one transaction writes at a time."""

    def _embeddings_of_rows(
        self,
        connection: sqlite3.Connection,
        table: str,  # noqa: ARG002 - rows are numbered once for both
        hashes: Mapping[int, str],
    ) -> Mapping[int, PassageEmbeddings | None]:
        return {row: rows.read_embeddings_of_row(connection, row, known) for row, known in hashes.items()}

    def _remove_versions_of(self, connection: sqlite3.Connection, tenant: Tenant, ids: Sequence[str]) -> None:
        limit = HistoryLimit(days=None)
        writer = CurrentVersionWriter(connection, self._attachments, limit=limit, now=self._clock())
        condition = f'id = ? AND "{tenant.by}" IS ?'
        runs, named = self._runs(connection), set[str]()
        for values in ([sql_text(item_id), sql_text(tenant.value)] for item_id in ids):
            named |= runs.naming("items", condition, values) | runs.naming("versions", condition, values)
            writer.remove(condition, values)
            remove_versions(connection, self._attachments, f"{condition} AND recorded_until IS NOT NULL", values)
        runs.forget(named)

    def _insert_versions(self, connection: sqlite3.Connection, versions: Sequence[StoredVersion]) -> None:
        made: Iterable[PassageEmbeddings | None] = (version.embeddings for version in versions)
        writes.check_embeddings(connection, self.location, self._model, made)
        for version in versions:
            self._insert_version(connection, version)
        newest = max((version.ended or version.began for version in versions), default=0)
        found = connection.execute("SELECT value FROM meta WHERE key = 'recorded'").fetchone()
        database.set_meta(connection, "recorded", max(newest, int(found[0]) if found else 0))

    def _insert_version(self, connection: sqlite3.Connection, version: StoredVersion) -> None:
        prepared = PreparedItem.of(version.item)
        body = version.item if self._attachments is None else self._attachments.externalize(version.item)
        origin = (version.operation, sql_text(version.run), version.began, sql_text(version.actor))
        values = rows.item_values(prepared, body, waiting=version.waiting)
        passages = rows.insert_item(connection, prepared, values, origin=origin)
        if version.embeddings is not None:
            rows.insert_embeddings(connection, passages, version.embeddings)
        if version.ended is not None:
            (row,) = connection.execute("SELECT row FROM items WHERE id = ?", (sql_text(version.item.id),)).fetchone()
            ended = (version.ended, version.end_operation, sql_text(version.end_run), sql_text(version.end_actor))
            end_row(connection, row, ended)
            connection.execute("UPDATE versions SET archived = ? WHERE row = ?", (1 if version.archived else None, row))
