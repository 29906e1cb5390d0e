"""A `simple` store with its defaults in a SQLite file, on vectors that are known beforehand.

FAISS is not imported here: devmem loads it at the first search, which a user's process pays for as well.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from devmem import MemoryBase, MemoryItem
from devmem.collections import PreparedItem
from devmem.stores import MemoryQuery, QueryEmbedding
from tools.bench.simple_store import open_simple
from tools.bench.speed.measured.measuring import (
    TOP_K,
    answer,
    arguments,
    bytes_in,
    read_queries,
    resident_bytes,
    share_found,
    timed,
)
from tools.bench.speed.words import encoding, token_embedding

_MODEL = "bench:precomputed"
_BATCH = 1_000
_PAUSE, _LONGEST_SETTLING = 0.05, 3_600.0
"""Seconds."""


def main() -> None:
    """Build the file, open it, or ask it."""
    phase, corpus, size, folder = arguments()
    match phase:
        case "build":
            _build(corpus, size, folder)
        case "open":
            _open_and_ask_once(corpus, size, folder)
        case _:
            _ask(corpus, size, folder)


def _build(corpus: Path, size: int, folder: Path) -> None:
    vectors = np.load(corpus / "vectors.npy", mmap_mode="r")
    store = open_simple(folder, {}, vectors.shape[1])
    started = time.perf_counter()
    with (corpus / "texts.txt").open(encoding="utf-8") as texts:
        for start in range(0, size, _BATCH):
            items = [
                MemoryItem(id=str(at), content_summary=next(texts).rstrip("\n"))
                for at in range(start, min(start + _BATCH, size))
            ]
            store.collection.add(
                [
                    replace(
                        PreparedItem.of(item),
                        embeddings=encoding(item.content_summary, np.array(vectors[int(item.id)])),
                    )
                    for item in items
                ]
            )
    build = (time.perf_counter() - started) * 1000
    started = time.perf_counter()
    _settle(store, _query(read_queries(corpus, size), 0))
    settle = (time.perf_counter() - started) * 1000
    store.close()
    answer({"build": build, "batch_add_per_s": size / build * 1000, "settle": settle, "disk_bytes": bytes_in(folder)})


def _settle(store: MemoryBase, query: MemoryQuery) -> None:
    """Search until nothing is prepared beside the searches: an index that is built by a thread of the store's."""
    until = time.monotonic() + _LONGEST_SETTLING
    store.search(query)
    while threading.active_count() > 1:
        if time.monotonic() > until:
            raise RuntimeError(f"the store still prepares something after {_LONGEST_SETTLING:g} s")
        time.sleep(_PAUSE)
        store.search(query)


def _query(queries: Any, at: int, *, words: bool = True, meaning: bool = True) -> MemoryQuery:  # noqa: ANN401 - npz
    embedding = QueryEmbedding(str(queries["texts"][at]) if meaning else "")
    vector = queries["vectors"][at]
    embedding.known(_MODEL, vector, token_embedding(str(queries["texts"][at]), vector) if words else None)
    return MemoryQuery(text=str(queries["texts"][at]) if words else "", top_k=TOP_K, embedding=embedding)


def _open_and_ask_once(corpus: Path, size: int, folder: Path) -> None:
    """Time from opening the file to the first answer, after the imports of devmem; FAISS is loaded within."""
    queries = read_queries(corpus, size)
    started = time.perf_counter()
    store = open_simple(folder, {}, queries["vectors"].shape[1])
    hits = store.search(_query(queries, 0))
    answer({"cold_open": (time.perf_counter() - started) * 1000})
    if len(hits) != TOP_K:
        raise RuntimeError(f"the reopened store gave {len(hits)} hits instead of {TOP_K}")


def _ask(corpus: Path, size: int, folder: Path) -> None:
    queries = read_queries(corpus, size)
    count = len(queries["texts"])
    before = resident_bytes()
    store = open_simple(folder, {}, queries["vectors"].shape[1])
    stages: dict[str, list[float]] = defaultdict(list)

    _settle(store, _query(queries, 0))
    asked = [_query(queries, at) for at in range(count)]
    timing, _ = timed(lambda at: store.search(asked[at]), count)
    for query in asked:
        for stage, milliseconds in store.explain(query).stage_ms.items():
            stages[stage].append(milliseconds)
    after = resident_bytes()
    by_words, _ = timed(lambda at: store.search(_query(queries, at, meaning=False)), count)
    by_meaning, found = timed(lambda at: store.search(_query(queries, at, words=False)), count)
    answer(
        {
            **timing.figures("retrieve"),
            "retrieve_words_p50": float(np.median(by_words.wall)),
            "retrieve_vector_p50": float(np.median(by_meaning.wall)),
            "recall@10": share_found(([int(hit.item.id) for hit in hits] for hits in found), queries["nearest"]),
            "ram_bytes": None if before is None or after is None else after - before,
            **{f"stage:{stage}_p50": float(np.median(each)) for stage, each in stages.items()},
        }
    )
    store.close()


if __name__ == "__main__":
    main()
