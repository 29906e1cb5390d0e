"""Searching a collection: what every collection does with a `SearchPipeline` and its hits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import SearchQuery

T = TypeVar("T")

MISSING: Final = MemoryItem(id="", content_summary="", created_at=0.0)
"""Stands for a row that is damaged or not there, while a search ranks it."""


class SearchingCollection(ABC):
    """The searching methods of `Collection`, on a source that a subclass opens for each search."""

    @abstractmethod
    def _now(self) -> float:
        """Return the current time in seconds since the epoch."""

    @abstractmethod
    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        """Run a search on indexes that are up to date."""

    @abstractmethod
    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items, in their order, with their attachments as they are read."""

    def find(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        if not _ranks(query):
            return SearchReport()
        report = self._search(query, lambda pipeline: pipeline.run())
        return replace(
            report,
            hits=self._shown(report.hits, query),
            cut=tuple(each for each in report.cut if each.item_id != MISSING.id),
        )

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the hits of `find` alone."""
        return list(self.find(query).hits)

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that the query is about, best first, each with its best items."""
        if hits_each < 1 or not _ranks(query):
            return []
        groups = self._search(query, lambda pipeline: pipeline.conversations(hits_each))
        shown = (replace(group, hits=self._shown(group.hits, query)) for group in groups)
        return [group for group in shown if group.hits]

    def _shown(self, hits: Sequence[Hit], query: SearchQuery) -> tuple[Hit, ...]:
        """Return the hits with their attachments, without damaged rows.

        Where a column is damaged, the item itself does not match the filter.
        """
        admits = query.where.matcher(self._now())
        intact = [hit for hit in hits if hit.item is not MISSING and admits(hit.item)]
        items = self._with_attachments([hit.item for hit in intact])
        # Most items have no attachments and are the hits' own.
        pairs = zip(intact, items, strict=True)
        return tuple(hit if item is hit.item else replace(hit, item=item) for hit, item in pairs)


def _ranks(query: SearchQuery) -> bool:
    """Whether a query has anything to rank by."""
    return query.limit > 0 and (query.vector is not None or bool(query.text.strip()))
