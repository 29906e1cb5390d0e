"""A collection as a shard: the map of the shards that it keeps, and the items of a tenant handed over whole.

The statements are the same in every database, as those of `storage.versions`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from devmem.errors import CollectionDamagedError
from devmem.model.fields import embedded_hash
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation
from devmem.models.embedder import PassageEmbeddings
from devmem.storage.attachments import with_inline_attachments
from devmem.storage.runs import RunRow, Runs, VersionTables
from devmem.storage.tombstones import Marks
from devmem.storage.versions import VersioningCollection

C = TypeVar("C")
"""A connection."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """The items with one value in a part of their scope."""

    by: str
    """Name of the part, such as `user`."""
    value: str | None
    """None for the items without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """A version of an item with all that a database records of it; times are recorded ones, in microseconds."""

    item: MemoryItem
    """With its attachments as data URIs."""
    embeddings: PassageEmbeddings | None
    waiting: bool
    operation: str
    run: str | None
    actor: str | None
    began: int
    ended: int | None
    """None for the current version."""
    end_operation: str | None
    end_run: str | None
    end_actor: str | None
    archived: bool
    """Whether it is in the archive."""


Signature: TypeAlias = tuple[tuple[int, int | None, bool], ...]
"""Begin, end and whether it waits for its embeddings, of each version of an item in their order."""


@runtime_checkable
class ShardCollection(Protocol):
    """A collection that can be a shard; see `ShardMethods`, which documents the methods."""

    def shard_map(self) -> bytes | None:
        """Return the map of the shards that it keeps; None where it is no shard yet."""
        ...

    def shard_map_version(self) -> int:
        """Return the version of that map; 0 for none."""
        ...

    def write_shard_map(self, value: bytes, version: int, *, replaces: int | None = None) -> bool:
        """Keep a map, durably; return whether it replaced an older one, or the one of the version `replaces`."""
        ...

    def tenants(self, by: str) -> dict[str | None, int]:
        """Return the number of items of each tenant; 0 for one that has earlier, archived or pending versions alone."""
        ...

    def signatures(self, tenant: Tenant) -> dict[str, Signature]:
        """Return the versions of a tenant's items by id, in the order in which the current ones were stored."""
        ...

    def has_pending(self, tenant: Tenant) -> bool:
        """Whether a pending run has versions of a tenant's items."""
        ...

    def stored_versions(self, tenant: Tenant, ids: Sequence[str]) -> list[StoredVersion]:
        """Return every version of some items of a tenant, oldest first for each, in the order of the ids."""
        ...

    def stored_runs(self, runs: Collection[str]) -> list[RunRow]:
        """Return what is recorded of some runs."""
        ...

    def replace_versions(
        self, tenant: Tenant, ids: Sequence[str], versions: Sequence[StoredVersion], runs: Sequence[RunRow] = ()
    ) -> None:
        """Replace all versions of some items of a tenant by others, in one transaction; known runs stay unchanged."""
        ...

    def stored_marks(self) -> Marks:
        """Return all tombstones."""
        ...

    def add_marks(self, marks: Marks) -> None:
        """Keep the tombstones of another shard too."""
        ...


_BEGAN: Final = f"COALESCE(operation, '{Operation.ADD.value}'), change_run, {{began}}, change_actor"
_ENDED: Final = "recorded_until, end_operation, end_run, end_actor, archived"
_NOT_ENDED: Final = "NULL, NULL, NULL, NULL, NULL"
_TENANTS: Final = (
    "SELECT tenant, max(items) FROM ("
    "SELECT TENANT AS tenant, count(*) AS items FROM items WHERE {of}TRUE GROUP BY TENANT "
    "UNION ALL SELECT DISTINCT TENANT AS tenant, 0 AS items FROM versions WHERE {of}TRUE) AS found GROUP BY tenant"
)
_SIGNATURES: Final = (
    "SELECT id, row, {began}, NULL, waiting FROM items WHERE {of}TENANT UNION ALL "
    "SELECT id, row, {began}, recorded_until, waiting FROM versions WHERE {of}TENANT AND recorded_until IS NOT NULL "
    "ORDER BY 2"
)
_VERSIONS: Final = (
    f"SELECT 'items', id, waiting, {_BEGAN}, {_NOT_ENDED}, {{body}} FROM items WHERE {{of}}AMONG AND TENANT "
    "UNION ALL "
    f"SELECT 'versions', id, waiting, {_BEGAN}, {_ENDED}, {{body}} FROM versions "
    "WHERE {of}AMONG AND TENANT AND recorded_until IS NOT NULL"
)
_BODY: Final = 12
"""Number of columns before those of the body."""
_PENDING: Final = "SELECT 1 FROM versions WHERE {of}TENANT AND recorded_until IS NULL LIMIT 1"


class ShardMethods(VersioningCollection[C]):
    """The methods of `ShardCollection` on the tables of versions; a subclass has what differs between databases."""

    location: str

    @abstractmethod
    def _read_map(self, connection: C) -> bytes | None:
        """Return the map of the shards within a transaction."""

    @abstractmethod
    def _map_version(self, connection: C) -> int:
        """Return the version of the map within a transaction; 0 for none."""

    @abstractmethod
    def _put_map(self, connection: C, value: bytes, version: int) -> None:
        """Replace the map within a write transaction."""

    @abstractmethod
    def _lock_map(self, connection: C) -> None:
        """Let no write that expects a map begin, and wait for those that have begun, until the transaction ends."""

    @abstractmethod
    def _embeddings_of_rows(
        self, connection: C, table: str, hashes: Mapping[int, str]
    ) -> Mapping[int, PassageEmbeddings | None]:
        """Return the embeddings of some rows of a table, given the `embedded_hash` of each item."""

    @abstractmethod
    def _remove_versions_of(self, connection: C, tenant: Tenant, ids: Sequence[str]) -> None:
        """Delete some items of a tenant permanently, with every version, and what only they use."""

    @abstractmethod
    def _insert_versions(self, connection: C, versions: Sequence[StoredVersion]) -> None:
        """Insert versions, oldest first for each item, without changing what is recorded of them."""

    def shard_map(self) -> bytes | None:
        """Return the map of the shards that it keeps."""
        return self._read(self._read_map)

    def shard_map_version(self) -> int:
        """Return the version of that map."""
        return self._read(self._map_version)

    def write_shard_map(self, value: bytes, version: int, *, replaces: int | None = None) -> bool:
        """Keep a map, durably."""

        def write(connection: C) -> bool:
            self._lock_map(connection)
            known = self._map_version(connection)
            if known >= version if replaces is None else known != replaces:
                return False
            self._put_map(connection, value, version)
            return True

        return self._write(write)

    def tenants(self, by: str) -> dict[str | None, int]:
        """Return the number of items of each tenant."""

        def read(connection: C) -> dict[str | None, int]:
            tables = self._tables(connection)
            found = tables.fetch(_TENANTS.replace("TENANT", f'"{by}"'))
            return {tables.read_text(tenant): int(items) for tenant, items in found}

        return self._read(read)

    def signatures(self, tenant: Tenant) -> dict[str, Signature]:
        """Return the versions of a tenant's items by id."""

        def read(connection: C) -> list[tuple[str, int, int, int | None, bool]]:
            tables = self._tables(connection)
            rows = _fetch(tables, _SIGNATURES, tenant)
            return [
                (tables.read_text(name) or "", row, int(began), ended, bool(waiting))
                for name, row, began, ended, waiting in rows
            ]

        found: dict[str, list[tuple[int, int | None, bool]]] = {}
        current: dict[str, int] = {}
        for item_id, row, began, ended, waiting in self._read(read):
            found.setdefault(item_id, []).append((began, ended, waiting))
            current.setdefault(item_id, 0)
            if ended is None:
                current[item_id] = row
        ordered = sorted(found, key=current.__getitem__)
        return {item_id: tuple(sorted(found[item_id], key=_age)) for item_id in ordered}

    def has_pending(self, tenant: Tenant) -> bool:
        """Whether a pending run has versions of a tenant's items."""
        return bool(self._read(lambda connection: _fetch(self._tables(connection), _PENDING, tenant)))

    def stored_versions(self, tenant: Tenant, ids: Sequence[str]) -> list[StoredVersion]:
        """Return every version of some items of a tenant."""
        found = self._read(lambda connection: self._stored_versions(connection, tenant, ids))
        items = self._with_attachments([version.item for version in found])
        whole = [
            replace(version, item=with_inline_attachments(item, self._lost_attachment))
            for version, item in zip(found, items, strict=True)
        ]
        place = {item_id: at for at, item_id in enumerate(ids)}
        return sorted(whole, key=lambda each: (place[each.item.id], *_age((each.began, each.ended, False))))

    def _lost_attachment(self, _ref: object, error: OSError) -> None:
        raise CollectionDamagedError(self.location, f"an attachment cannot be read: {error}") from error

    def _stored_versions(self, connection: C, tenant: Tenant, ids: Sequence[str]) -> list[StoredVersion]:
        tables = self._tables(connection)
        statement = _VERSIONS.replace("AMONG", tables.among(tables.dialect.key, "ids"))
        keys = tables.many([tables.key_of(item_id) for item_id in ids])
        found: list[tuple[str, int, MemoryItem, Sequence[Any]]] = []
        for columns in _fetch(tables, statement, tenant, ids=keys):
            table, name, recorded, (row, *body) = columns[0], columns[1], columns[2:_BODY], columns[_BODY:]
            item = tables.item_of(row, *body)
            if item is None:
                reason = f"the item {tables.read_text(name)!r} is damaged and cannot be moved; see `devmem doctor`."
                raise CollectionDamagedError(self.location, reason)
            found.append((table, row, item, recorded))
        embeddings = {
            table: self._embeddings_of_rows(
                connection, table, {row: embedded_hash(item) for of, row, item, _ in found if of == table}
            )
            for table in ("items", "versions")
        }
        return [_version(tables, item, embeddings[table].get(row), recorded) for table, row, item, recorded in found]

    def stored_runs(self, runs: Collection[str]) -> list[RunRow]:
        """Return what is recorded of some runs."""
        return self._read(lambda connection: self._runs(connection).recorded(runs)) if runs else []

    def replace_versions(
        self, tenant: Tenant, ids: Sequence[str], versions: Sequence[StoredVersion], runs: Sequence[RunRow] = ()
    ) -> None:
        """Replace all versions of some items of a tenant by others, in one transaction."""

        def change(connection: C) -> None:
            self._remove_versions_of(connection, tenant, ids)
            self._insert_versions(connection, versions)
            Runs(self._tables(connection)).add_recorded(runs)

        self._write(change)
        self._note(written=len(versions), deleted=len(ids))


def _fetch(tables: VersionTables, statement: str, tenant: Tenant, **values: object) -> list[tuple[Any, ...]]:
    """Run a statement in which `TENANT` is the condition that a row is of a tenant."""
    column = f'"{tenant.by}"'
    if tenant.value is None:
        return tables.fetch(statement.replace("TENANT", f"{column} IS NULL"), **values)
    named = {**values, "tenant": tables.text(tenant.value)}
    return tables.fetch(statement.replace("TENANT", f"{column} = :tenant"), **named)


def _version(
    tables: VersionTables, item: MemoryItem, embeddings: PassageEmbeddings | None, recorded: Sequence[Any]
) -> StoredVersion:
    waiting, operation, run, began, actor, ended, end_operation, end_run, end_actor, archived = recorded
    read = tables.read_text
    return StoredVersion(
        item=item,
        embeddings=embeddings,
        waiting=bool(waiting),
        operation=operation,
        run=read(run),
        actor=read(actor),
        began=int(began),
        ended=ended,
        end_operation=end_operation,
        end_run=read(end_run),
        end_actor=read(end_actor),
        archived=bool(archived),
    )


def _age(version: tuple[int, int | None, bool]) -> tuple[int, float, bool]:
    """Return a key by which the versions of an item are in their order, the current one last."""
    began, ended, waiting = version
    return began, float("inf") if ended is None else ended, waiting
