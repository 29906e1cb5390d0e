"""Fields of the items that one search looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.follower import indexed_form
from devmem.indexes.doc_values import thread_of
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import Positions, places_in

FIELD_COLUMNS: Final = (
    'row, conversation, session, agent, "user", speaker, COALESCE(event_time, created_at), length, cues, importance'
)
"""Columns of the table `items` that `ItemFields.add` takes."""
FieldRow: TypeAlias = tuple[
    int, str | None, str | None, str | None, str | None, str | None, float, int, int, float | None
]
_MOST_KEPT: Final = 50_000
"""Number of items whose fields are kept: some 30 MB with conversations, users and speakers."""
_TYPES: Final = {"thread": "<i8", "time": "<f8", "length": "<i4", "cues": "u1", "importance": "<f4"}


class FieldCache:
    """Fields of the items that searches looked at last, of one generation of a store. Thread-safe.

    The fields of an item stay the same: what changes them makes a new row, or a new generation.
    """

    def __init__(self) -> None:
        self._known: dict[int, FieldRow] = {}

    def of(self, rows: Rows) -> list[FieldRow]:
        """Return those of the rows that are known."""
        known = self._known
        return [known[row] for row in rows.tolist() if row in known]

    def keep(self, found: Sequence[FieldRow]) -> None:
        """Remember rows that were read; when there are too many, start again with these."""
        if len(self._known) + len(found) > _MOST_KEPT:
            self._known = {}
        self._known.update((fields[0], fields) for fields in found)


class ItemFields:
    """Columns over items that are known by their row: those of `DocValues` that searches read."""

    def __init__(self) -> None:
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._order: Positions = np.empty(0, dtype=np.int64)
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype=kind) for name, kind in _TYPES.items()}
        self._speakers: list[str | None] = []

    def add(self, found: Sequence[FieldRow]) -> None:
        """Append items, none of which was added before."""
        if not found:
            return
        rows, *texts, time, length, cues, importance = zip(*found, strict=True)
        conversation, session, agent, user, speaker = map(_indexed_forms, texts)
        threads = list(map(thread_of, conversation, session, agent, user))
        new = {"thread": threads, "time": time, "length": length, "cues": cues}
        new["importance"] = [value or 0.0 for value in importance]
        self._rows = np.append(self._rows, np.array(rows, dtype=np.int64))
        self._order = np.argsort(self._rows)
        self._speakers += speaker
        for name, kind in _TYPES.items():
            self._columns[name] = np.append(self._columns[name], np.array(new[name], dtype=kind))

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that was not added."""
        if not len(self._rows):
            return np.full(rows.shape, -1, dtype=np.int64)
        at = places_in(self._rows[self._order], rows)
        return np.where(at >= 0, self._order[at], -1)

    def rows(self, positions: Positions) -> Rows:
        """Return the rows at some positions."""
        return self._rows[positions]

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, one value for each position; see `DocValues.column`."""
        return self._columns[name]

    def speakers(self, positions: Positions) -> list[str | None]:
        """Return the speaker of each item at some positions."""
        return [self._speakers[position] for position in positions.tolist()]


def _indexed_forms(column: Sequence[str | None]) -> list[str | None]:
    forms = {text: indexed_form(text) for text in set(column)}
    return [forms[text] for text in column]
