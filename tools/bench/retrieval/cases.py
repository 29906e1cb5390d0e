"""The cases of a run as the runner sees them: something that takes a haystack and ranks it for a question."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from devmem import MemoryBase, MemoryItem
from devmem.stores import Progress, QueryEmbedding
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.references import Bm25, ExactVectors
from tools.bench.retrieval.variants import Variant


class Searcher(Protocol):
    """A haystack that can be asked."""

    index_bytes: int
    """Bytes that the index takes; known when it is closed."""

    def search(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:
        """Rank the items for a text, best first; the text's embedding is made when it is asked for first."""
        ...

    def sessions(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:
        """Rank sessions for a text; empty when they have the ranks of their best items."""
        ...


class Case(Protocol):
    """A way to search that is compared with others."""

    @property
    def name(self) -> str:
        """Name of the case in the rows."""
        ...

    @contextmanager
    def opened(self, items: Sequence[MemoryItem], memo: EmbeddingMemo, progress: Progress) -> Iterator[Searcher]:
        """Take the items in."""
        ...


class StoreCase:
    """A store with its items in a temporary SQLite file."""

    def __init__(self, variant: Variant) -> None:
        self.name = variant.name
        self._variant = variant

    @contextmanager
    def opened(self, items: Sequence[MemoryItem], memo: EmbeddingMemo, progress: Progress) -> Iterator[StoreSearcher]:
        """Store the items as an import does; the file is removed at the end."""
        with tempfile.TemporaryDirectory(prefix="devmem-bench-") as name:
            folder = Path(name)
            with self._variant.opened(folder, memo) as store:
                store.add(items, progress)
                searcher = StoreSearcher(store=store, variant=self._variant)
                yield searcher
            # After closing: the log is in the file then, and the snapshot of the index is written.
            searcher.index_bytes = sum(file.stat().st_size for file in folder.rglob("bench.db*") if file.is_file())


@dataclass(slots=True, kw_only=True)
class StoreSearcher:
    """A store that is asked with the queries of a variant."""

    store: MemoryBase
    variant: Variant
    index_bytes: int = 0

    def search(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:
        """Rank the items for a text."""
        return [hit.item.id for hit in self.store.search(self.variant.query(asked, top_k, asked_at))]

    def sessions(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:
        """Rank sessions for a text."""
        groups = self.store.search_conversations(self.variant.query(asked, top_k, asked_at), hits_each=1)
        return list(dict.fromkeys(group.session for group in groups if group.session is not None))


class Bm25Case:
    """BM25 alone, in memory."""

    name = "bm25"

    @contextmanager
    def opened(self, items: Sequence[MemoryItem], memo: EmbeddingMemo, progress: Progress) -> Iterator[Searcher]:  # noqa: ARG002
        """Index the items."""
        yield Bm25(items, progress)


class VectorCase:
    """One vector an item and exact search, in memory."""

    name = "vector"

    @contextmanager
    def opened(self, items: Sequence[MemoryItem], memo: EmbeddingMemo, progress: Progress) -> Iterator[Searcher]:
        """Embed the items."""
        yield ExactVectors(items, memo, progress)
