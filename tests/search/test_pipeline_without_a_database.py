"""The pipeline needs of a database what `SearchSource` says, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from devmem import MemoryItem, Scope
from devmem.model.filters import ITEM_FIELDS, Wanted
from devmem.models.embedder import TokenCodes
from devmem.search.candidates import filter_indexes
from devmem.search.indexes.columns import Rows
from devmem.search.indexes.doc_values import DocEntry
from devmem.search.indexes.index_set import IndexReader, IndexSet
from devmem.search.indexes.passages import indexed_text
from devmem.search.indexes.scoring import encode_terms
from devmem.search.pipeline import SearchPipeline
from devmem.search.source import FilterMatches
from devmem.storage import Filter, PreparedItem, SearchQuery, SqliteCollection, at_least
from devmem.testing import HashEmbedder
from devmem.text.cues import cues_of

NOW = 1_700_000_000.0
TALK = (
    "When is the launch?",
    "On Friday, I think.",
    "Who told you?",
    "Ann did, in the launch meeting.",
    "Oolong, please.",
)


class ListSource:
    """A list of items as a `SearchSource`; some items become visible late, with lower numbers than others."""

    def __init__(self, items: Sequence[MemoryItem], late: Sequence[int] = ()) -> None:
        self._items = dict(enumerate(items, 1))
        indexes = IndexSet()
        for rows in ([row for row in self._items if row not in late], list(late)):
            indexes.add_items([self._entry(row) for row in rows])
            texts = [indexed_text(self._items[row].content_summary, self._items[row]) for row in rows]
            indexes.add_passages(rows, rows, [encode_terms(text) for text in texts])
            if rows:
                vectors = np.array([self._items[row].embedding for row in rows])
                indexes.add_vectors(np.array(rows, dtype=np.int64), vectors)
        self.indexes: IndexReader = indexes.reader()

    def _entry(self, row: int) -> DocEntry:
        item = self._items[row]
        return DocEntry(
            row,
            cues=int(cues_of(item.content_summary)),
            length=len(item.content_summary),
            time=item.created_at,
            trust=item.trust,
            strings=(*(each.of(item) for each in ITEM_FIELDS), None),
        )

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        return filter_indexes(self.indexes, self.rows_with_metadata, where, period)

    def rows_with_metadata(self, metadata: Mapping[str, Wanted], among: Rows) -> Rows:
        where = Filter(metadata=metadata)
        return np.array([row for row in among.tolist() if where.admits(self._items[row], NOW)], dtype=np.int64)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        return {row: self._items[row] for row in rows}

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        return np.empty((0, width), dtype=np.uint8), np.zeros(len(passages), dtype=np.int64)


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder(dimension=32)


@pytest.fixture
def items(embedder: HashEmbedder) -> list[MemoryItem]:
    return [
        MemoryItem(
            id=f"{number}.{at}",
            content_summary=f"{text} {number}",
            embedding=embedder.vector(f"{text} {number}"),
            scope=Scope(user=f"u{number % 2}", conversation=f"c{number}"),
            created_at=NOW - number,
            trust=0.5 + at / 10,
            metadata={"at": at},
        )
        for number in range(8)
        for at, text in enumerate(TALK)
    ]


@pytest.mark.parametrize(
    "where",
    [
        Filter(),
        Filter(scope=Scope(user="u1")),
        Filter(min_trust=0.65),
        Filter(metadata={"at": 1}),
        Filter(unbound=("agent",)),
        Filter(any_of=(Filter(metadata={"at": at_least(3)}), Filter(scope=Scope(user="u1")))),
    ],
    ids=["all", "user", "trust", "metadata", "unbound", "any of"],
)
def test_it_finds_what_a_database_finds(items: list[MemoryItem], embedder: HashEmbedder, where: Filter) -> None:
    """Also when rows became visible in another order than that of their numbers."""
    collection = SqliteCollection(model=embedder.identity, clock=lambda: NOW)
    collection.add([PreparedItem.of(item) for item in items])
    query = SearchQuery(text="the launch", vector=embedder.vector("the launch"), where=where, limit=8, now=NOW)
    wanted = [(hit.item.id, hit.score) for hit in collection.search(query)]
    # With the vectors as the database has them.
    stored = list(collection.scan())
    collection.close()
    assert len(wanted) > 3
    for late in ((), (3, 1, 17, 2), range(1, 20)):
        report = SearchPipeline(ListSource(stored, late), query, NOW).run()
        assert [(hit.item.id, hit.score) for hit in report.hits] == wanted
