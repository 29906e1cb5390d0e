"""Copying versions from one store to another, with the times at which they began and ended, and their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from devmem.model.versions import RunState
from devmem.storage.attachments import inlined
from devmem.storage.changes import RECORDED
from devmem.storage.protocol import Collection
from devmem.storage.tables import NOW, NewItem, Origin, StoreTables
from devmem.storage.versions import VersionedCollection
from devmem.storage.writing import PreparedItem

_BATCH_SIZE: Final = 256
_BEGAN: Final = "operation, change_run, change_actor, began"
_ENDED: Final = "ended, end_operation, end_run, end_actor"
_RUN: Final = "run, state, actor, started_at, committed_at, ended_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """A version that ended."""

    row: int
    """In the source."""
    new: NewItem
    origin: Origin
    end: tuple[Any, ...]
    """Values of the columns `_ENDED`."""


def copy_versions(source: Collection, target: Collection, *, embedded: bool) -> int:
    """Copy the versions that ended, after the current items were copied; return their number.

    Current items that are the source's begin in the target when they did there. What the target has already, and what
    its tombstones keep out, is left out, so that a copy can be continued.

    Args:
        source: where the versions are.
        target: where they go; nothing is copied where one of the two keeps no versions.
        embedded: whether the target takes over the source's embeddings.
    """
    if not (isinstance(source, VersionedCollection) and isinstance(target, VersionedCollection)):
        return 0
    if not target.keeps_versions:
        return 0
    copied = last = began = 0
    while found := source.database.read(partial(_read_ended, after=last, embedded=embedded)):
        last = found[-1].row
        copied += target.database.write(partial(_insert_ended, versions=found))
    last = 0
    while rows := target.database.read(partial(_page, after=last)):
        last = rows[-1][0]
        begun = source.database.read(partial(_begun, ids=[item_id for _, item_id, *_ in rows]))
        began = target.database.write(partial(_move_beginnings, rows=rows, begun=begun, newest=began))
    ended = (RunState.PENDING.value,)
    runs = source.database.read(
        lambda tables: tables.execute(f"SELECT {_RUN} FROM runs WHERE {tables.of} AND state <> ?", ended)
    )
    into, own = target.database.dialect.into, target.database.dialect.own
    statement = f"INSERT INTO runs({into}{_RUN}) VALUES ({own}?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
    target.database.write(lambda tables: tables.change_many(statement, [tuple(run) for run in runs]))
    return copied


def _read_ended(tables: StoreTables, *, after: int, embedded: bool) -> list[_Ended]:
    """Return some versions in rows after one."""
    ended = f"FROM items WHERE {tables.of} AND ended IS NOT NULL AND archived IS NULL AND row > ?"
    columns = f"row, {_BEGAN}, {_ENDED}, {tables.dialect.body}"
    found = tables.execute(f"SELECT {columns} {ended} ORDER BY row LIMIT {_BATCH_SIZE}", (after,))
    return [_ended(tables, *each, embedded=embedded) for each in found]


def _ended(tables: StoreTables, row: int, *columns: Any, embedded: bool) -> _Ended:  # noqa: ANN401 - of the database
    *began, until, end_operation, end_run, end_actor, body = columns
    operation, run, actor, at = began
    (item,) = inlined([tables.load(row, body)], tables.read_attachments)
    known = tables.embeddings([item.id], f"row = {row}").get(item.id) if embedded else None
    return _Ended(
        row=row,
        new=NewItem(prepared=PreparedItem.of(item).analysed(), embeddings=known, waiting=False, replaces=False),
        origin=Origin(operation=operation, run=run, actor=actor, at=at, slot=f"copy:{row}"),
        end=(until, end_operation, end_run, end_actor),
    )


def _insert_ended(tables: StoreTables, versions: Sequence[_Ended]) -> int:
    """Insert those of some versions that are not there and that no tombstone keeps out; return their number."""
    items = [version.new.prepared.item for version in versions]
    among, values = tables.dialect.among("id", sorted({item.id for item in items}))
    query = f"SELECT id, began FROM items WHERE {tables.of} AND {among} AND ended IS NOT NULL"
    there, erased = {tuple(row) for row in tables.execute(query, values)}, tables.erased_among(items)
    fresh = [
        version
        for version, item in zip(versions, items, strict=True)
        if (item.id, version.origin.at) not in there and item.id not in erased
    ]
    rows = tables.insert([each.new for each in fresh], [each.origin for each in fresh]) if fresh else []
    replaced = ", ".join(f"{name} = ?" for name in _ENDED.split(", "))
    statement = f"UPDATE items SET slot = 'was:' || row, {replaced} WHERE {tables.of} AND row = ?"
    tables.change_many(statement, [(*each.end, row) for row, each in zip(rows, fresh, strict=True)])
    latest = max((int(each.end[0]) for each in fresh), default=0)
    tables.set_property(RECORDED, max(latest, int(tables.property(RECORDED) or 0)))
    return len(fresh)


def _page(tables: StoreTables, after: int) -> list[tuple[Any, ...]]:
    """Return row, id, content hash and beginning of some current items in rows after one."""
    current = f"FROM items WHERE {tables.of} AND {NOW} AND row > ? ORDER BY row LIMIT {_BATCH_SIZE}"
    return tables.execute(f"SELECT row, id, content_hash, began {current}", (after,))


def _begun(tables: StoreTables, ids: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return content hash and beginning of the current items of some ids."""
    among, values = tables.dialect.among("id", ids)
    query = f"SELECT id, content_hash, {_BEGAN} FROM items WHERE {tables.of} AND {NOW} AND {among}"
    return {item_id: tuple(rest) for item_id, *rest in tables.execute(query, values)}


def _move_beginnings(
    tables: StoreTables, rows: Sequence[tuple[Any, ...]], begun: dict[str, tuple[Any, ...]], newest: int
) -> int:
    """Let copies begin when their originals did, where that keeps the rows in the order of their beginnings.

    Return the newest beginning, `newest` being that of the rows before.
    """
    changes = []
    for row, item_id, content_hash, own in rows:
        said, *began = begun.get(item_id, (None, None, None, None, own))
        if said == content_hash and newest <= began[-1] < own:
            changes.append((*began, row))
            own = began[-1]
        newest = max(newest, own)
    replaced = ", ".join(f"{name} = ?" for name in _BEGAN.split(", "))
    tables.change_many(f"UPDATE items SET {replaced} WHERE {tables.of} AND row = ?", changes)
    return newest
