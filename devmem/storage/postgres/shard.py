"""A PostgreSQL store as a shard; see `ShardMethods`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from devmem.models.embedder import PassageEmbeddings
from devmem.storage.fencing import check_map
from devmem.storage.postgres.attachments import externalized, insert_attachments
from devmem.storage.postgres.claim import check_embeddings, check_store
from devmem.storage.postgres.database import Connection, composed, pipelined, stored_text
from devmem.storage.postgres.inserting import NewItem, Origin, insert_items
from devmem.storage.postgres.rows import ITEM_TABLES, VERSION_TABLES, check_storable, embeddings_of_rows, key_of
from devmem.storage.postgres.schema import lock, lock_shared
from devmem.storage.postgres.version_writer import CurrentVersionWriter, remove_versions
from devmem.storage.postgres.versions import PostgresVersions
from devmem.storage.shard import ShardMethods, StoredVersion, Tenant
from devmem.storage.writing import HistoryLimit, PreparedItem

_KIND: Final = "shards"
_SELECT: Final = "SELECT value FROM states WHERE store = %s AND kind = %s AND name_key = %s"
_UPSERT: Final = (
    "INSERT INTO states(store, kind, name_key, name, value) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT (store, kind, name_key) DO UPDATE SET value = excluded.value, version = states.version + 1"
)
_MAP: Final = "map"
_VERSION: Final = "version"
"""Beside the map, so that a write need not read all of it."""
_END: Final = (
    "UPDATE versions SET change_run = %s, recorded_from = %s, recorded_until = %s, end_operation = %s, end_run = %s, "
    "end_actor = %s, archived = %s WHERE store = %s AND row = %s"
)


class PostgresShard(PostgresVersions, ShardMethods[Connection]):
    """A store of a database, with the methods of `ShardCollection`."""

    def _value(self, connection: Connection, name: str) -> bytes | None:
        found = connection.execute(_SELECT, (self._store, _KIND, key_of(name)), binary=True).fetchone()
        return None if found is None else bytes(found[0])

    def _read_map(self, connection: Connection) -> bytes | None:
        return self._value(connection, _MAP)

    def _map_version(self, connection: Connection) -> int:
        return int(self._value(connection, _VERSION) or 0)

    def _put_map(self, connection: Connection, value: bytes, version: int) -> None:
        for name, content in ((_MAP, value), (_VERSION, str(version).encode())):
            connection.execute(_UPSERT, (self._store, _KIND, key_of(name), name, content))

    def _lock_map(self, connection: Connection) -> None:
        check_store(connection, self.location, self._store)
        lock(connection, "shard map", self._store)

    def _fence(self, connection: Connection) -> None:
        """Refuse a write that expects another map; see `expecting_map`."""
        with pipelined(connection):
            lock_shared(connection, "shard map", self._store)
            # A statement of its own: it sees what was committed while the lock was waited for.
            found = connection.execute(_SELECT, (self._store, _KIND, key_of(_VERSION)), binary=True)
        row = found.fetchone()
        check_map(0 if row is None else int(bytes(row[0])))

    def _embeddings_of_rows(
        self, connection: Connection, table: str, hashes: Mapping[int, str]
    ) -> Mapping[int, PassageEmbeddings | None]:
        tables = ITEM_TABLES if table == ITEM_TABLES.items else VERSION_TABLES
        return embeddings_of_rows(connection, self._store, tables, hashes)

    def _remove_versions_of(self, connection: Connection, tenant: Tenant, ids: Sequence[str]) -> None:
        check_store(connection, self.location, self._store)
        writer = CurrentVersionWriter(connection, self._store, limit=HistoryLimit(days=None), now=self._clock())
        condition = f'id_key = ANY(%s) AND "{tenant.by}" IS NOT DISTINCT FROM %s'
        values = [[key_of(item_id) for item_id in ids], stored_text(tenant.value)]
        runs = self._runs(connection)
        named = runs.naming("items", condition, values) | runs.naming("versions", condition, values)
        writer.remove(condition, values)
        remove_versions(connection, self._store, f"{condition} AND recorded_until IS NOT NULL", values)
        runs.forget(named)

    def _insert_versions(self, connection: Connection, versions: Sequence[StoredVersion]) -> None:
        made = [version.embeddings for version in versions]
        check_embeddings(connection, self.location, self._store, self._model_name(), made)
        current = [version for version in versions if version.ended is None]
        self._insert_into(connection, current, ended=False)
        ended = [version for version in versions if version.ended is not None]
        numbers = self._insert_into(connection, ended, ended=True)
        with connection.cursor() as cursor:
            cursor.executemany(
                composed(_END),
                [
                    (
                        *(stored_text(version.run), version.began, version.ended, version.end_operation),
                        *(stored_text(version.end_run), stored_text(version.end_actor)),
                        *(True if version.archived else None, self._store, row),
                    )
                    for row, version in zip(numbers, ended, strict=True)
                ],
            )

    def _insert_into(self, connection: Connection, versions: Sequence[StoredVersion], *, ended: bool) -> list[int]:
        new, contents = [], []
        for version in versions:
            prepared = PreparedItem.of(version.item)
            check_storable(prepared)
            body, attachments = externalized(version.item)
            new.append(NewItem(prepared, body, version.embeddings, version.waiting))
            contents.append(attachments)
        # An ended version looks like one of a pending run, of which it would be the only one, until it gets its end.
        origins = [
            Origin(version.operation, None if ended else version.run, version.actor, None if ended else version.began)
            for version in versions
        ]
        tables = VERSION_TABLES if ended else ITEM_TABLES
        numbers = insert_items(connection, self._store, new, origins, tables)
        insert_attachments(connection, self._store, numbers, contents)
        return numbers
