"""Lists of what a memory returns, which a notebook shows as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import ClassVar, TypeVar

from devmem.model.items import MemoryItem
from devmem.model.results import Hit, html_table
from devmem.model.versions import ItemVersion
from devmem.text.analysis import shorten
from devmem.text.moments import local

T = TypeVar("T")


class _NotebookTable(list[T]):
    """A list that a notebook shows as a table."""

    columns: ClassVar[tuple[str, ...]]

    def cells(self, row: T) -> tuple[object, ...]:
        """Return the cells of one row, in the order of `columns`."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_table(self.columns, map(self.cells, self))


class Items(_NotebookTable[MemoryItem]):
    """Items of a memory, in order."""

    columns = ("text", "user", "time", "metadata", "id")

    def cells(self, row: MemoryItem) -> tuple[object, ...]:
        """Return what a table shows of an item."""
        return shorten(row.text, 300), row.user or "", _shown(row.time), row.caller_metadata or "", row.id


class Hits(_NotebookTable[Hit]):
    """Hits of a search, best first."""

    columns = ("score", "text", "user", "time", "id")

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        *,
        left_out: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take the hits; `left_out` counts the items that the search left out because they belong to users."""
        super().__init__(hits)
        self._count, self._left_out = left_out, -1

    def __reduce__(self) -> tuple[type[Hits], tuple[list[Hit]]]:
        # The counting function knows the memory, which stays in its process.
        return Hits, (list(self),)

    @property
    def left_out(self) -> int:
        """Number of items that match the search's filter but belong to users, none of whom was named.

        They are counted when this is read first. It is 0 for a search that names a user, and for a scoped handle.
        """
        if self._left_out < 0:
            self._left_out = max(self._count(), 0)
        return self._left_out

    def cells(self, row: Hit) -> tuple[object, ...]:
        """Return what a table shows of a hit."""
        return f"{row.score:.3f}", shorten(row.snippet, 300), row.user or "", _shown(row.time), row.id


class History(_NotebookTable[ItemVersion]):
    """Versions of an item, oldest first."""

    columns = ("since", "until", "operation", "text", "actor", "run")

    def cells(self, row: ItemVersion) -> tuple[object, ...]:
        """Return what a table shows of a version."""
        since, until = _shown(row.since), _shown(row.until) if row.until else ""
        return since, until, row.operation.value, shorten(row.item.text, 300), row.actor or "", row.run or ""


def _shown(time: datetime) -> str:
    """Return a time for people, in the local zone."""
    try:
        return f"{local(time.timestamp()):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        # The first and the last moment of the calendar have no local time everywhere.
        return f"{time:%Y-%m-%d %H:%M:%S}"
