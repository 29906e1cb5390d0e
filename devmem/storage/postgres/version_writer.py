"""Changing the current items of a store, so that what is replaced or deleted stays as a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol
from uuid import UUID

from devmem.model.caller import Actor, current_actor
from devmem.model.versions import Operation
from devmem.storage.postgres import rows
from devmem.storage.postgres.attachments import delete_unused
from devmem.storage.postgres.database import Connection, composed, stored_text
from devmem.storage.postgres.inserting import NewItem, Origin, insert_items
from devmem.storage.postgres.rows import ITEM_TABLES, VERSION_TABLES
from devmem.storage.writing import HistoryLimit, VersionEnd, recorded

SWEEP_LIMIT: Final = 200
"""Maximum number of expired items, and of old versions, that one write removes."""
_MOST_IN_RUN: Final = 500
"""Characters of a run's id, of which an index holds four."""
_ITEM: Final = f"store, row, {rows.ITEM_COLUMNS}"
_TICK: Final = """
SELECT max(time) FROM (SELECT recorded_from AS time FROM items WHERE store = %(store)s AND id_key = ANY(%(keys)s)
    UNION ALL SELECT recorded_until FROM versions WHERE store = %(store)s AND id_key = ANY(%(keys)s)) AS times
"""

_DUE: Final = f"""
SELECT ARRAY(SELECT row FROM items WHERE store = %(store)s AND expires_at <= %(now)s
    ORDER BY expires_at LIMIT {SWEEP_LIMIT} ),
ARRAY(SELECT row FROM versions WHERE store = %(store)s
    AND (expires_at <= %(now)s AND recorded_until IS NOT NULL OR recorded_until < %(oldest)s AND archived IS NULL)
    LIMIT {SWEEP_LIMIT} )
"""
"""Selects the rows of expired items, and of versions that are not kept any longer."""


def check_run(run: str | None) -> None:
    """Refuse the id of a run that an index could not hold.

    Raises:
        ValueError: it is too long.
    """
    if run is not None and len(run) > _MOST_IN_RUN:
        raise ValueError(f"the id of the run {run[:40]!r}... has more than {_MOST_IN_RUN} characters")


FORGOTTEN: Final = VersionEnd(operation=Operation.FORGET)
ARCHIVED: Final = VersionEnd(operation=Operation.ARCHIVE)


class VersionWriter(Protocol):
    """Changes items within one write transaction; reading `items` by its connection shows what it changed."""

    connection: Connection
    store: int

    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert items, the terms of their passages and their embeddings; return their rows."""
        ...

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Delete the items that match a condition, which stay as versions where these are kept; return their number."""
        ...

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete the items that match a condition permanently, as retention does; return their number."""
        ...

    def tick(self, keys: Sequence[UUID]) -> None:
        """Let the recorded time of the transaction be later than all of the items with these keys, which are locked."""
        ...

    def stamp(self, now: float) -> None:
        """Let the recorded time of the transaction be `now` (seconds since the epoch), if that is later."""
        ...

    def prune(self) -> None:
        """Remove some of what retention removes, where that is due."""
        ...


_UNCOUNT: Final = (
    "uncounted AS (UPDATE terms SET texts = terms.texts - fewer_of.texts FROM (SELECT term, count(*) AS texts "
    "FROM (SELECT DISTINCT passage, term FROM passages_gone, unnest(terms) AS term) AS each GROUP BY term) AS fewer_of "
    "WHERE terms.store = %(store)s AND terms.term = fewer_of.term)",
    "fewer AS (UPDATE stores SET changes = changes + 1, texts = texts - (SELECT count(*) FROM passages_gone), "
    "total_length = total_length - (SELECT COALESCE(sum(length), 0) FROM passages_gone) "
    "WHERE store = %(store)s AND EXISTS (SELECT FROM gone))",
)
"""The CTEs that count the terms of deleted passages no longer."""


def _of_gone(table: str) -> str:
    """Return the CTE that deletes the passages of deleted rows from a table."""
    condition = rows.passages_among(table, "gone")
    return f"{table}_gone AS (DELETE FROM {table} WHERE {condition} RETURNING {table}.*)"


def _delete(tables: rows.Tables, *, keep: bool) -> str:
    """Return the statement that deletes rows of `{condition}` with all that belongs to them, or keeps them as versions.

    It yields the number of rows, and the attachments that were used by rows which are gone.
    """
    parts = (tables.passages, tables.vectors, tables.tokens)
    ctes = [
        f"gone AS (DELETE FROM {tables.items} WHERE store = %(store)s AND ({{condition}}) RETURNING *)",
        *map(_of_gone, parts),
    ]
    if tables is ITEM_TABLES:
        ctes += _UNCOUNT
    if keep:
        began = "operation, change_run, change_actor, recorded_from"
        ctes.append(
            f"kept AS (INSERT INTO versions({_ITEM}, operation, change_run, change_actor, recorded_from, "
            f"recorded_until, end_operation, end_run, end_actor, archived) SELECT {_ITEM}, {began}, "
            f"GREATEST(%(at)s, recorded_from + 1), %(end_operation)s, %(end_run)s, %(end_actor)s, %(archived)s "
            "FROM gone)"
        )
        ctes += [f"{part}_kept AS (INSERT INTO version_{part} SELECT * FROM {part}_gone)" for part in parts]
        used = "NULL::text[]"
    else:
        ctes.append(
            "used AS (DELETE FROM attachment_uses AS use USING gone "
            "WHERE use.store = %(store)s AND use.row = gone.row RETURNING sha256)"
        )
        used = "(SELECT array_agg(DISTINCT sha256) FROM used)"
    return f"WITH {', '.join(ctes)} SELECT (SELECT count(*) FROM gone), {used}"


_END: Final = _delete(ITEM_TABLES, keep=True)
_REMOVE: Final = _delete(ITEM_TABLES, keep=False)
_REMOVE_VERSIONS: Final = _delete(VERSION_TABLES, keep=False)


class CurrentVersionWriter:
    """Changes the items that everybody sees; see `VersionWriter`."""

    def __init__(
        self, connection: Connection, store: int, *, limit: HistoryLimit, now: float, run: str | None = None
    ) -> None:
        """Prepare the changes of one write transaction.

        Args:
            connection: in a write transaction.
            store: number of the store.
            limit: how long versions are kept.
            now: seconds since the epoch.
            run: the run that is being committed or reverted; None takes that of each item's scope.

        Raises:
            ValueError: the id of the run is too long.
        """
        self.connection, self.store = connection, store
        self._limit, self._now = limit, now
        # What a run writes on commit has the actors that wrote it.
        self._actor = Actor(run=run) if run is not None else current_actor()
        check_run(self._actor.run)
        self.at = recorded(now)
        """Recorded time of the transaction; see `tick`."""

    def tick(self, keys: Sequence[UUID]) -> None:
        """Count on from the last recorded time of some items, where the clock was set back or has not moved."""
        found = self.connection.execute(composed(_TICK), {"store": self.store, "keys": list(keys)}).fetchone()
        if found is not None and found[0] is not None:
            self.at = max(self.at, found[0] + 1)

    def stamp(self, now: float) -> None:
        """Let the recorded time of the transaction be `now`, if that is later."""
        self.at = max(self.at, recorded(now))

    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert current items."""
        return insert_items(self.connection, self.store, new, [self._origin(one) for one in new])

    def _origin(self, new: NewItem) -> Origin:
        operation = Operation.UPDATE if new.replaces else Operation.ADD
        return Origin(operation.value, self._actor.run or new.item.scope.run, self._actor.name, self.at)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Move items to the versions; delete them where no versions are kept, unless they are archived."""
        is_archived = ending.operation is Operation.ARCHIVE
        if not (self._limit.keeps or is_archived):
            return self.remove(condition, values)
        by = replace(ending, run=self._actor.run or ending.run, actor=ending.actor or self._actor.name)
        return self._run(
            _END,
            condition,
            values,
            at=self.at,
            end_operation=by.operation.value,
            end_run=stored_text(by.run),
            end_actor=stored_text(by.actor),
            archived=True if is_archived else None,
        )

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete items and what only they use."""
        return self._run(_REMOVE, condition, values)

    def _run(self, query: str, condition: str, values: Sequence[object], **others: object) -> int:
        return _deleted(self.connection, self.store, query, condition, values, **others)

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._limit.keeps_since(at, self._now)

    def prune(self) -> None:
        """Remove some of what is past its `expires_at`, and of the versions that ended too long ago.

        At most `SWEEP_LIMIT` of each go with one write, so that none is slow; what another transaction removes is
        passed over.
        """
        due = {"store": self.store, "now": self._now, "oldest": self._limit.oldest(self._now)}
        ((found, old),) = self.connection.execute(composed(_DUE), due).fetchall()
        if found:
            # What replaces an expired item is in no conflict with its expiry.
            self.connection.execute(
                "UPDATE versions SET base = NULL WHERE store = %s AND recorded_until IS NULL AND base = ANY(%s)",
                (self.store, found),
            )
            self.remove("row = ANY(%s)", [found])
        if old:
            remove_versions(self.connection, self.store, "row = ANY(%s)", [old])


def remove_versions(connection: Connection, store: int, condition: str, values: Sequence[object]) -> int:
    """Delete versions permanently with what only they use; return their number."""
    return _deleted(connection, store, _REMOVE_VERSIONS, condition, values)


def _deleted(
    connection: Connection,
    store: int,
    query: str,
    condition: str,
    values: Sequence[object],
    **others: object,
) -> int:
    """Run one of the statements that delete from some tables; return the number of rows."""
    named = {f"v{at}": value for at, value in enumerate(values)}
    with_names = condition % tuple(f"%({name})s" for name in named) if named else condition
    parameters = {"store": store, **named, **others}
    found = connection.execute(composed(query.format(condition=with_names)), parameters).fetchone()
    count, attachments = found or (0, None)
    if attachments:
        delete_unused(connection, store, attachments)
    return int(count)


def forget_terms(connection: Connection, store: int) -> None:
    """Delete the terms that no passage has any more: their hashes tell what was erased."""
    connection.execute("DELETE FROM terms WHERE store = %s AND texts <= 0", (store,))
