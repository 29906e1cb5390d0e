"""BM25 alone differs from a store's full text in nothing but that it takes whole items and scores all of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.model.items import SourceKind
from devmem.search.indexes.passages import indexed_text
from devmem.search.indexes.postings import PostingsIndex
from devmem.search.indexes.scoring import encode_terms
from devmem.stores import Provenance, QueryEmbedding
from devmem.text.query_text import QueryText
from tools.bench.retrieval.references import Bm25


def item(text: str, *, day: int | None = None, said: str = "", file: str = "") -> MemoryItem:
    return MemoryItem(
        id=text[:12],
        content_summary=text,
        event_time=None if day is None else datetime(2024, 3, day, tzinfo=UTC).timestamp(),
        output_snapshot=MemoryContentSnapshot(text=said) if said else None,
        provenance=Provenance(kind=SourceKind.FILE, name=file) if file else Provenance(),
    )


ITEMS = [
    item("The key is under the mat.", day=15),
    item("The bus leaves at nine, and it is the last one of the day that we can take.", day=16),
    item("A bus came at nine.", day=17),
    item("她在北京买了一只风筝。", day=18),
    item("风很大，北边的筝断了。"),
    item("Input: where is the key? Output: on the ...", said="On the bus, under the last seat, as I said."),
    item("Nothing of it.", file="timetable.md"),
]


def ranked(items: list[MemoryItem], query: str) -> list[str]:
    return Bm25(items, lambda _: None).search(QueryEmbedding(query), 10)


@pytest.mark.parametrize(
    "query",
    [
        "Where is the key?",
        "the last bus at nine",
        "What was on 16 March 2024?",
        "北京的风筝在哪",
        "timetable",
        "seat key 筝",
    ],
)
def test_bm25_alone_ranks_short_items_as_the_store_s_full_text(query: str) -> None:
    index = PostingsIndex()
    texts = [one.content_summary if one.output_snapshot is None else one.full_text() for one in ITEMS]
    rows = range(len(ITEMS))
    index.add(rows, [encode_terms(indexed_text(text, one)) for text, one in zip(texts, ITEMS, strict=True)])
    assert ranked(ITEMS, query) == [ITEMS[row].id for row in index.query(QueryText(query)).top(10)] != []
