"""The versions and runs of a PostgreSQL store: its dialect, its tables, and what writes in a pending run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from devmem.model.caller import current_actor
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation
from devmem.storage.postgres import rows
from devmem.storage.postgres.database import Connection, composed, read_text, stored_text
from devmem.storage.postgres.inserting import NewItem, Origin, insert_items
from devmem.storage.postgres.rows import VERSION_TABLES, schema_sql
from devmem.storage.postgres.version_writer import FORGOTTEN, remove_versions
from devmem.storage.runs import VersionTables
from devmem.storage.sql import VersionDialect
from devmem.storage.writing import VersionEnd

OF_RUN: Final = "change_run = %s AND recorded_until IS NULL"
"""Selects the versions of a pending run."""
_BASES: Final = f"SELECT id_key, row, base FROM versions WHERE store = %s AND {OF_RUN} AND "
_HIDE: Final = (
    f"INSERT INTO versions(store, row, {rows.ITEM_COLUMNS}, operation, change_run, change_actor, base) "
    f"SELECT %s, %s + row_number() OVER (), {rows.ITEM_COLUMNS}, %s, %s, %s, row "
    "FROM items WHERE store = %s AND row = ANY(%s)"
)
_OWN: Final = (
    "SELECT row, base IS NOT NULL OR EXISTS (SELECT FROM {main}.items WHERE items.store = own.store "
    f"AND items.id_key = own.id_key) FROM versions AS own WHERE store = %s AND {OF_RUN} AND row = ANY(%s)"
)
"""Selects rows of a run's versions, and whether there is an item of others behind each, which must not appear again.

The row that the version replaces stays recorded, so that a commit sees what others changed meanwhile.
"""
_MARK_DELETED: Final = "UPDATE versions SET operation = %s, change_actor = %s WHERE store = %s AND row = ANY(%s)"


class RunVersionWriter:
    """Changes the items that a pending run sees; see `VersionWriter`. Used on connections of the run's view."""

    def __init__(self, connection: Connection, store: int, run: str, schema: str) -> None:
        self.connection, self.store = connection, store
        self._run, self._actor, self._schema = run, current_actor().name, schema

    def tick(self, keys: Sequence[UUID]) -> None:
        """Do nothing: what a run writes is recorded when it is committed."""

    def stamp(self, now: float) -> None:
        """Do nothing likewise."""

    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert versions of the run in the place of those that it has of the items."""
        keys = [rows.key_of(one.item.id) for one in new]
        bases = self._take_back("id_key = ANY(%s)", keys)
        return insert_items(
            self.connection, self.store, new, [self._origin(bases.get(key)) for key in keys], VERSION_TABLES
        )

    def _origin(self, base: int | None) -> Origin:
        operation = Operation.ADD if base is None else Operation.UPDATE
        return Origin(operation.value, self._run, self._actor, base)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Hide items from the run; the rest is decided on commit."""
        query = composed(f"SELECT row FROM items WHERE store = %s AND ({condition})")
        found = {row for (row,) in self.connection.execute(query, (self.store, *values))}
        if not found:
            return 0
        names = stored_text(self._run), stored_text(self._actor)
        query = composed(_OWN.format(main=schema_sql(self._schema)))
        own: dict[int, bool] = dict(self.connection.execute(query, (self.store, names[0], list(found))).fetchall())
        marked = [row for row, is_marked in own.items() if is_marked]
        change = ending.operation.value
        self.connection.execute(composed(_MARK_DELETED), (change, names[1], self.store, marked))
        self._take_back("row = ANY(%s)", [row for row, is_marked in own.items() if not is_marked])
        others = list(found - own.keys())
        if others:
            first = rows.new_rows(self.connection, self.store, len(others))[0] - 1
            self.connection.execute(composed(_HIDE), (self.store, first, change, *names, self.store, others))
        return len(found)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Hide items from the run."""
        return self.end(condition, values, FORGOTTEN)

    def prune(self) -> None:
        """Do nothing: what others see is not the run's to remove."""

    def _take_back(self, condition: str, wanted: Sequence[object]) -> dict[UUID, int | None]:
        """Remove versions of the run; return the rows of the items that they replace, by their keys."""
        values = (self.store, stored_text(self._run), list(wanted))
        found = self.connection.execute(composed(_BASES + condition), values).fetchall()
        if found:
            remove_versions(self.connection, self.store, "row = ANY(%s)", [[row for _, row, _ in found]])
        return {key: base for key, _, base in found}


_NAMED: Final = re.compile(r"(?<!:):([a-z]+)")


def dialect_of(schema: str, store: int) -> VersionDialect:
    """Return the dialect of a store's statements."""
    return VersionDialect(
        mark="%s",
        key="id_key",
        differs="IS DISTINCT FROM",
        began="recorded_from",
        columns=rows.SNAPSHOT_COLUMNS,
        body="row, body",
        position="strpos",
        among="{0} = ANY(:{1})",
        literal=rows.text_sql,
        main=f"{schema_sql(schema)}.",
        store=store,
    )


class PostgresTables(VersionTables):
    """The tables of a store."""

    def __init__(self, connection: Connection, store: int, location: str) -> None:
        """Take a connection in a transaction, the number of the store, and its place."""
        super().__init__(dialect_of(connection.schema, store), location)
        self.connection, self.store = connection, store

    def execute(self, statement: str, values: Mapping[str, object] | Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, if it has any."""
        named = _NAMED.sub(r"%(\1)s", statement) if isinstance(values, Mapping) else statement
        # Without values: a schema's name may have a percent sign.
        done = self.connection.execute(composed(named), values or None)
        return done.fetchall() if done.description else []

    def text(self, text: str | None) -> str | None:
        """Return a text as a column holds it."""
        return stored_text(text)

    def read_text(self, text: str | None) -> str | None:
        """Return the text of a column."""
        return read_text(text)

    def key_of(self, item_id: str) -> object:
        """Return the key by which an item is found."""
        return rows.key_of(item_id)

    def many(self, values: Iterable[object]) -> object:
        """Return several values as an array."""
        return list(values)

    def item_of(self, row: int, *body: Any) -> MemoryItem:  # noqa: ANN401 - columns of the database
        """Return the item of a body."""
        return rows.item_from(row, *body)

    def lock_runs(self, runs: Iterable[str]) -> None:
        """Do nothing: the row of the store is locked, behind which all its writes are."""

    def remove_versions(self, condition: str, values: Sequence[object]) -> None:
        """Delete versions permanently, with what only they use."""
        remove_versions(self.connection, self.store, condition, values)
