"""The history of an item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from devmem.collections.postgres import rows
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.shown import RECORDED_FROM
from devmem.collections.postgres.texts import read_text
from devmem.collections.recorded import author_of, seconds
from devmem.model.versions import Change, ItemVersion, Operation

_HISTORY: Final = f"""
SELECT body, operation, change_run, recorded_from, change_actor, recorded_until, end_operation, end_run, end_actor, row
FROM versions WHERE store = %(store)s AND id_key = %(key)s AND recorded_until IS NOT NULL
UNION ALL SELECT body, COALESCE(operation, '{Operation.ADD.value}'), change_run, {RECORDED_FROM}, change_actor,
    NULL, NULL, NULL, NULL, row
FROM items WHERE store = %(store)s AND id_key = %(key)s ORDER BY 4, 10
"""


def read_history(connection: Connection, store: int, item_id: str) -> list[ItemVersion]:
    """Return the committed versions of an item, oldest first, without their large attachments."""
    values = {"store": store, "key": rows.key_of(item_id)}
    found = connection.execute(composed(_HISTORY), values).fetchall()
    named = {run for each in found for run in (each[2], each[7]) if run is not None}
    query = "SELECT run, actor FROM runs WHERE store = %s AND run = ANY(%s)"
    actors = {run: read_text(actor) for run, actor in connection.execute(query, (store, list(named)))} if named else {}
    return list(_versions(found, actors))


def _versions(found: Sequence[tuple[Any, ...]], actors: Mapping[str, str | None]) -> Iterator[ItemVersion]:
    for body, operation, run, at, stored_actor, until, *ending, _ in found:
        item = rows.item_from(body)
        last = read_text(ending[2]) or actors.get(ending[1])
        ended = None if until is None else _change(ending[0], until, ending[1], last)
        by, actor = actors.get(run), read_text(stored_actor)
        # Who wrote a new item is known best from itself: a command, or an import, acts for somebody else.
        known = by or author_of(item) or actor if operation == Operation.ADD.value else actor or by or author_of(item)
        yield ItemVersion(item=item, began=_change(operation, at, run, known), ended=ended)


def _change(operation: str, at: int, run: str | None, actor: str | None) -> Change:
    return Change(operation=Operation(operation), at=seconds(at), run=read_text(run), actor=actor)
