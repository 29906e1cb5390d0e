"""The cost of versions: a collection of which half of all versions are old, beside one that keeps none.

Both hold the same current items, each of which was replaced once, so that the one has as many old versions as current
ones. They are measured in turns, call by call, so that whatever else the machine does slows both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from devmem import MemoryItem
from devmem.storage import PreparedItem, SearchQuery, SqliteCollection
from devmem.stores import ModelIdentity, Vector
from tools.bench.index_builds import IndexBuilds
from tools.bench.speed.words import encoding, token_embedding

_CALLS: Final = 300
"""Maximum number of measured updates, and of measured searches, of each collection."""
_BATCH_SIZE: Final = 1_000
_TOP_K: Final = 10
_QUERY_WORDS: Final = 8


def compare(texts: Sequence[str], vectors: Vector, folder: Path) -> dict[str, float]:
    """Return medians in ms of updates that replace an item and of searches, with and without old versions, and ratios.

    Args:
        texts: of the items.
        vectors: their embeddings, unit rows.
        folder: keeps the files.
    """
    paths = {"without": folder / "without.db", "half_old": folder / "half_old.db"}
    kept: dict[str, float | None] = {"without": 0, "half_old": None}
    model = ModelIdentity(name="bench:precomputed", dimension=vectors.shape[1])
    builds = IndexBuilds()

    def opened(stack: ExitStack) -> list[SqliteCollection]:
        return [
            stack.enter_context(closing(SqliteCollection(path, model=model, history_days=kept[name])))
            for name, path in paths.items()
        ]

    with ExitStack() as stack:
        for collection in opened(stack):
            # What is replaced has the same words in another order, and the vector of another item.
            _fill(collection, [" ".join(reversed(text.split())) for text in texts], np.roll(vectors, 1, axis=0))
            _fill(collection, texts, vectors)
    with ExitStack() as stack:
        found = _measure(opened(stack), builds, texts, vectors)
    for metric in ("update", "retrieve"):
        yielded = found[f"{metric}_half_old_p50"] / found[f"{metric}_without_old_p50"]
        found[f"{metric}_half_old_to_{metric}_without_old"] = yielded
    return found


def _fill(collection: SqliteCollection, texts: Sequence[str], vectors: Vector) -> None:
    for start in range(0, len(texts), _BATCH_SIZE):
        ends = min(start + _BATCH_SIZE, len(texts))
        collection.add([_prepared(at, texts[at], vectors[at]) for at in range(start, ends)])


def _prepared(at: int, text: str, vector: Vector) -> PreparedItem:
    item = PreparedItem.of(MemoryItem(id=str(at), content_summary=text))
    return replace(item, embeddings=encoding(text, np.array(vector)))


def _measure(
    collections: Sequence[SqliteCollection], builds: IndexBuilds, texts: Sequence[str], vectors: Vector
) -> dict[str, float]:
    chosen = np.random.default_rng(1).choice(len(texts), min(_CALLS, len(texts)), replace=False).tolist()
    queries = [_query(texts[at], vectors[at]) for at in chosen]
    for collection in collections:
        builds.settle(partial(collection.search, queries[0]))
    searches = _in_turns(collections, [_searching(query) for query in queries])
    updates = _in_turns(collections, [_updating(_prepared(at, f"{texts[at]} again", vectors[at])) for at in chosen])
    return {
        f"{metric}_{name}_p50": float(np.median(times))
        for metric, measured in (("update", updates), ("retrieve", searches))
        for name, times in zip(("without_old", "half_old"), measured, strict=True)
    }


def _query(text: str, vector: Vector) -> SearchQuery:
    words = " ".join(text.split()[:_QUERY_WORDS])
    embedding = token_embedding(words, np.array(vector))
    return SearchQuery(text=words, vector=embedding.vector, tokens=embedding, limit=_TOP_K)


def _searching(query: SearchQuery) -> Callable[[SqliteCollection], object]:
    return lambda collection: collection.search(query)


def _updating(item: PreparedItem) -> Callable[[SqliteCollection], object]:
    return lambda collection: collection.add([item])


def _in_turns(
    collections: Sequence[SqliteCollection], calls: Sequence[Callable[[SqliteCollection], object]]
) -> list[list[float]]:
    """Time each call in ms with every collection, another one first each time; return the times by collection."""
    times: list[list[float]] = [[] for _ in collections]
    for number, call in enumerate(calls):
        for at in _order(number, len(collections)):
            started = time.perf_counter()
            call(collections[at])
            times[at].append((time.perf_counter() - started) * 1000)
    return times


def _order(number: int, count: int) -> Iterator[int]:
    return ((number + at) % count for at in range(count))
