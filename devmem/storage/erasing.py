"""Erasing items with every version, and the tombstones that keep them out, on the transactions of a database.

Each erasure is recorded before its first change (`ErasePlan`, in the table `pending`), and the record goes when it is
done: whoever opens the store after a crash finishes it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from uuid import uuid4

from devmem.errors import CollectionBusyError, CollectionUnwritableError
from devmem.model.items import MemoryItem
from devmem.storage import tombstones
from devmem.storage.erasure import FOREVER, ErasePlan, EraseRequest, EraseResult, descendants
from devmem.storage.reading import SqlReader
from devmem.storage.runs import Runs, ids_among, planned
from devmem.storage.sql import Sql
from devmem.storage.tables import NOW, TOMBSTONE_KEYS, StoreTables
from devmem.storage.tombstones import Mark, Tombstone, marks_of, new_key, owner_of

T = TypeVar("T")

_PLAN: Final = "erasure"
"""Kind of pending work."""


def read_plans(tables: StoreTables) -> list[ErasePlan]:
    """Return the plans that a store records."""
    query = f"SELECT key, payload FROM pending WHERE {tables.of} AND kind = ? ORDER BY key"
    plans = [(key, json.loads(payload)) for key, payload in tables.execute(query, (_PLAN,))]
    return [ErasePlan(id=key, **plan | {"ids": tuple(plan["ids"]), "rows": tuple(plan["rows"])}) for key, plan in plans]


def write_plan(tables: StoreTables, plan: ErasePlan) -> None:
    """Record a plan, or what is left of it."""
    payload = {"ids": plan.ids, "rows": plan.rows, "items": plan.items}
    dialect = tables.dialect
    statement = (
        f"INSERT INTO pending({dialect.into}kind, key, payload) VALUES ({dialect.own}?, ?, ?) "
        f"ON CONFLICT ({dialect.into}kind, place, key{dialect.tail}) DO UPDATE SET payload = excluded.payload"
    )
    tables.execute(statement, (_PLAN, plan.id, json.dumps(payload)))


def end_plan(tables: StoreTables, plan: ErasePlan) -> None:
    """Forget a plan."""
    tables.execute(f"DELETE FROM pending WHERE {tables.of} AND kind = ? AND key = ?", (_PLAN, plan.id))


def erase_planned(tables: StoreTables, plan: ErasePlan) -> None:
    """Erase what a plan names from the tables; the other plans that it covers end with that."""
    Runs(tables).erase_versions(*planned(tables.dialect, plan.ids, plan.rows))
    for other in read_plans(tables):
        if other.id != plan.id and plan.covers(other):
            end_plan(tables, other)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ErasableVersion:
    """A stored version."""

    row: int
    item: MemoryItem
    is_current: bool


class ErasableStore(SqlReader):
    """Erases items from the tables of a store, and keeps tombstones of them."""

    @abstractmethod
    def finish_erasure(self, plan: ErasePlan, words: Sequence[str] = (), *, vacuum: bool = False) -> EraseResult:
        """Remove the planned items, with every version, from the database, its log and its index snapshot.

        Another process may have done so already: the number of items is that of the plan all the same.

        Args:
            plan: the erasure, which ends unless something could not be reached; no other one does, except those that it
                covers.
            words: are looked for in the files; none are where they are not to be searched.
            vacuum: rewrite the database even if nothing is found.
        """

    @abstractmethod
    def apply_tombstones(self) -> EraseResult:
        """Erase what came back beside the collection, as with a backup that was put in its place.

        It costs nothing where the collection is as its last tombstone left it.
        """

    @abstractmethod
    def _begin_work(self) -> str:
        """Return the id of a new plan, and show other processes that this one is at work on it."""

    @abstractmethod
    def _end_work(self, plan_id: str) -> None:
        """Leave a plan, if it has not ended, to whoever opens the store."""

    @abstractmethod
    def _is_executed(self, plan: ErasePlan) -> bool:
        """Whether a living process is at work on a plan."""

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the selected items; for those of which only older versions match, one such version."""
        chosen: dict[str, MemoryItem] = {}
        current: set[str] = set()
        for found in self.database.read(lambda tables: list(self._find_erasable(tables, request))):
            item_id = found.item.id
            current |= {item_id} if found.is_current else set()
            # Of what is gone, or in the archive, the last version.
            if found.is_current or item_id not in current:
                chosen[item_id] = found.item
        return self.database.with_attachments(list(chosen.values()))

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items, as their provenance says."""
        found = self.database.read(lambda tables: list(self._versions(tables, ("derived", []))))
        return self.database.with_attachments(descendants([each.item for each in found], ids))

    def begin_erasure(self, request: EraseRequest, derived: Sequence[str] = ()) -> ErasePlan:
        """Record durably what is erased from now on; `planned_erasures` returns it until the end.

        Args:
            request: the items.
            derived: ids of more items.
        """
        # Before the plan, which would else be another process's to finish at once.
        plan_id = self._begin_work()

        def begin(tables: StoreTables) -> ErasePlan:
            plan = replace(self._plan(tables, request, derived), id=plan_id)
            write_plan(tables, plan)
            return plan

        try:
            return self.database.remove(begin)
        except BaseException:
            self._end_work(plan_id)
            raise

    def _plan(self, tables: StoreTables, request: EraseRequest, derived: Sequence[str]) -> ErasePlan:
        found = list(self._find_erasable(tables, request))
        current = ids_among(tables, {each.item.id for each in found}, NOW)
        # What stays as the current version keeps those that do not match.
        stays = current - {each.item.id for each in found if each.is_current}
        ids = tuple(dict.fromkeys((*(each.item.id for each in found if each.item.id not in stays), *derived)))
        numbers = tuple(each.row for each in found if each.item.id in stays)
        # An item that two erasures plan at once is counted by the first of them, unless its process has died.
        counted = {one for plan in read_plans(tables) if self._is_executed(plan) for one in plan.ids}
        items = ids_among(tables, set(ids) - counted, f"COALESCE({NOW} OR archived, false)")
        return ErasePlan(ids=ids, rows=numbers, items=len(items))

    def planned_erasures(self) -> list[ErasePlan]:
        """Return the erasures that have begun and not ended: living processes are at work on them, or were killed."""
        return [replace(plan, is_executed=self._is_executed(plan)) for plan in self.database.read(read_plans)]

    def withdraw_erasure(self, plan: ErasePlan) -> None:
        """Forget a plan of which nothing was done.

        Raises:
            CollectionUnwritableError: it stays, since on a disk without one free page not even that can be written.
        """
        try:
            self.database.remove(lambda tables: end_plan(tables, plan))
        except (CollectionUnwritableError, CollectionBusyError) as error:
            reason = "nothing was deleted yet; it stays decided, and is done when the store is next opened and can be"
            raise CollectionUnwritableError(self.location, f"{reason} written ({error})") from error
        finally:
            self._end_work(plan.id)

    def _find_erasable(self, tables: StoreTables, request: EraseRequest) -> Iterator[_ErasableVersion]:
        """Find the selected versions, current ones first."""
        condition, values = tables.dialect.where(request.where, FOREVER)
        if request.run is not None:
            condition, values = f"({condition}) AND (run = ? OR change_run = ?)", [*values, request.run, request.run]
        if request.ids is not None:
            among, listed = tables.dialect.among("id", list(request.ids))
            condition, values = f"{among} AND {condition}", [*listed, *values]
        for found in self._versions(tables, (condition, values)):
            if request.text is None or request.contains_text(found.item):
                yield found

    def _versions(self, tables: StoreTables, clause: Sql) -> Iterator[_ErasableVersion]:
        condition, values = clause
        matching = f"FROM items WHERE {tables.of} AND {condition} ORDER BY slot <> 'now', row"
        for row, slot, body in tables.execute(f"SELECT row, slot, {tables.dialect.body} {matching}", values):
            yield _ErasableVersion(row=row, item=tables.load(row, body), is_current=slot == "now")

    def keep_tombstones(self, items: Sequence[MemoryItem], *, wholes: Collection[str] = ()) -> str:
        """Record durably that some items are erased; return the id of the erasure.

        Args:
            items: the items, in every version that is to be kept out.
            wholes: ids of those that are kept out as a whole only, since their sentences may be those of others.
        """
        erasure, at = uuid4().hex, self._clock()

        def keep(tables: StoreTables) -> None:
            keys = tables.tombstone_keys() or (new_key(),)
            marks = (marks_of(keys[0], item, erasure, at, whole_only=item.id in wholes) for item in items)
            insert_marks(tables, [mark for each in marks for mark in each])
            set_keys(tables, keys)

        self._change_tombstones(keep)
        return erasure

    def _change_tombstones(self, change: Callable[[StoreTables], T]) -> T:
        """Change tombstones."""
        return self.database.write(change)

    def tombstones(self, user: str | None = None, *, everybody: bool = True) -> list[Tombstone]:
        """Return the tombstones, oldest first; without `everybody` those of one user, None for unscoped items."""

        def read(tables: StoreTables) -> list[Tombstone]:
            where, values = _owned(tables, user, everybody=everybody)
            numbers = "count(*) FILTER (WHERE whole), count(*) FILTER (WHERE NOT whole)"
            query = f"SELECT erasure, min(erased_at), {numbers} FROM tombstones WHERE {where} GROUP BY erasure"
            found = tables.execute(f"{query} ORDER BY 2, 1", values)
            return [
                Tombstone(id=erasure, erased_at=at, texts=texts, sentences=sentences)
                for erasure, at, texts, sentences in found
            ]

        return self.database.read(read)

    def remove_tombstones(
        self, erasures: Sequence[str] | None = None, user: str | None = None, *, everybody: bool = True
    ) -> int:
        """Remove the tombstones of some erasures, or all; return the number of texts that may be stored again."""
        if not self.database.read(lambda tables: tables.tombstone_keys()):
            return 0

        def remove(tables: StoreTables) -> int:
            where, values = _owned(tables, user, everybody=everybody)
            if erasures is not None:
                among, listed = tables.dialect.among("erasure", list(erasures))
                where, values = f"{where} AND {among}", [*values, *listed]
            ((texts,),) = tables.execute(f"SELECT count(*) FROM tombstones WHERE {where} AND whole", values)
            tables.execute(f"DELETE FROM tombstones WHERE {where}", values)
            if not tables.execute(f"SELECT 1 FROM tombstones WHERE {tables.of} LIMIT 1"):
                set_keys(tables, ())
            return int(texts)

        return self._change_tombstones(remove)

    def without_erased(self, text: str, user: str | None) -> str:
        """Return a text without the sentences that a tombstone of the user stands for."""

        def read(tables: StoreTables) -> str:
            keys = tables.tombstone_keys()
            return tombstones.without_erased(keys, text, user, tables.find_tombstones) if keys else text

        return self.database.read(read)


def insert_marks(tables: StoreTables, marks: Sequence[Mark]) -> None:
    """Keep marks."""
    dialect, columns = tables.dialect, ", ".join(Mark._fields)
    replaced = ", ".join(f"{name} = excluded.{name}" for name in Mark._fields)
    statement = (
        f"INSERT INTO tombstones({dialect.into}{columns}) VALUES ({dialect.own}?, ?, ?, ?, ?) "
        f"ON CONFLICT ({dialect.into}digest{dialect.tail}) DO UPDATE SET {replaced}"
    )
    tables.change_many(statement, marks)


def set_keys(tables: StoreTables, keys: Sequence[bytes]) -> None:
    """Record the keys of the tombstones; without any, there are none."""
    tables.set_property(TOMBSTONE_KEYS, json.dumps([key.hex() for key in keys]) if keys else None)


def _owned(tables: StoreTables, user: str | None, *, everybody: bool) -> Sql:
    if everybody:
        return tables.of, []
    among, values = tables.dialect.among("owner", [owner_of(key, user) for key in tables.tombstone_keys()])
    return f"{tables.of} AND {among}", values
