"""A `simple` store with its defaults in a SQLite file, with precomputed vectors.

devmem imports most of what it needs at its first use. Each phase therefore begins with a small store in memory, whose
time is reported as `import_ms` and is part of no other figure.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from devmem import Filter, MemoryBase, MemoryItem, Scope
from devmem.storage import PreparedItem
from devmem.stores import MemoryQuery, QueryEmbedding
from devmem_stores.simple import SimpleMemory
from tools.bench.index_builds import IndexBuilds
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
_BATCH_SIZE = 1_000
_USERS = 50
_THREADS = (1, 2, 4)
_THREADS_SECONDS = 5.0
"""Maximum duration of the measurement with one number of threads."""


def main() -> None:
    """Build the file, open it, ask it from one thread, or from several."""
    phase, corpus, size, folder = arguments()
    match phase:
        case "build":
            _build(corpus, size, folder)
        case "open":
            _open_and_ask_once(corpus, size, folder)
        case "threads":
            _ask_from_threads(corpus, size, folder)
        case _:
            _ask(corpus, size, folder)


def _warm_up(dimension: int) -> float:
    """Add an item to a store in memory and search it; return the milliseconds, nearly all of which are imports."""
    started = time.perf_counter()
    store = open_simple(None, {}, dimension)
    vector = np.eye(1, dimension, dtype=np.float32)[0]
    item = PreparedItem.of(MemoryItem(content_summary="warm-up", scope=Scope(user="user")))
    store.collection.add([replace(item, embeddings=encoding("warm-up", vector))])
    embedding = QueryEmbedding("warm-up")
    embedding.known(_MODEL, vector, token_embedding("warm-up", vector))
    store.search(MemoryQuery(text="warm-up", limit=1, embedding=embedding))
    store.close()
    return (time.perf_counter() - started) * 1000


def _build(corpus: Path, size: int, folder: Path) -> None:
    vectors = np.load(corpus / "vectors.npy", mmap_mode="r")
    _warm_up(vectors.shape[1])
    builds = IndexBuilds()
    store = open_simple(folder, {}, vectors.shape[1])
    started = time.perf_counter()
    with (corpus / "texts.txt").open(encoding="utf-8") as texts:
        for start in range(0, size, _BATCH_SIZE):
            items = [
                MemoryItem(id=str(at), content_summary=next(texts).rstrip("\n"), scope=Scope(user=_user(at)))
                for at in range(start, min(start + _BATCH_SIZE, size))
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
    first = _query(read_queries(corpus, size), 0)
    builds.settle(lambda: store.search(first))
    settle = (time.perf_counter() - started) * 1000
    store.close()
    answer({"build": build, "batch_add_per_s": size / build * 1000, "settle": settle, "disk_bytes": bytes_in(folder)})


def _user(at: int) -> str:
    return f"user {at % _USERS}"


def _query(
    queries: Any,  # noqa: ANN401 - an npz file
    at: int,
    *,
    words: bool = True,
    meaning: bool = True,
    user: str | None = None,
) -> MemoryQuery:
    embedding = QueryEmbedding(str(queries["texts"][at]) if meaning else "")
    vector = queries["vectors"][at]
    embedding.known(_MODEL, vector, token_embedding(str(queries["texts"][at]), vector) if words else None)
    text, where = str(queries["texts"][at]) if words else "", Filter(scope=Scope(user=user))
    return MemoryQuery(text=text, limit=TOP_K, embedding=embedding, where=where)


def _open_and_ask_once(corpus: Path, size: int, folder: Path) -> None:
    """Measure the time from opening the file to the first answer."""
    queries = read_queries(corpus, size)
    imports = _warm_up(queries["vectors"].shape[1])
    started = time.perf_counter()
    store = open_simple(folder, {}, queries["vectors"].shape[1])
    hits = store.search(_query(queries, 0))
    answer({"cold_open": (time.perf_counter() - started) * 1000, "import_ms": imports})
    if len(hits) != TOP_K:
        raise RuntimeError(f"the reopened store gave {len(hits)} hits instead of {TOP_K}")


def _ask(corpus: Path, size: int, folder: Path) -> None:
    queries = read_queries(corpus, size)
    count = len(queries["texts"])
    _warm_up(queries["vectors"].shape[1])
    before = resident_bytes()
    builds = IndexBuilds()
    store = open_simple(folder, {}, queries["vectors"].shape[1])
    stages: dict[str, list[float]] = defaultdict(list)

    builds.settle(lambda: store.search(_query(queries, 0)))
    asked = [_query(queries, at) for at in range(count)]
    timing, _ = timed(lambda at: store.search(asked[at]), count)
    for query in asked:
        for stage, milliseconds in store.search(replace(query, explain=True)).stage_ms.items():
            stages[stage].append(milliseconds)
    after = resident_bytes()
    scoped = [_query(queries, at, user=_user(at)) for at in range(count)]
    within_user, _ = timed(lambda at: store.search(scoped[at]), count)
    by_words, _ = timed(lambda at: store.search(_query(queries, at, meaning=False)), count)
    by_meaning, found = timed(lambda at: store.search(_query(queries, at, words=False)), count)
    answer(
        {
            **timing.figures("retrieve"),
            "retrieve_scoped_p50": float(np.median(within_user.wall)),
            "retrieve_words_p50": float(np.median(by_words.wall)),
            "retrieve_vector_p50": float(np.median(by_meaning.wall)),
            "recall@10": share_found(([int(hit.item.id) for hit in hits] for hits in found), queries["nearest"]),
            "ram_bytes": None if before is None or after is None else after - before,
            **{f"stage:{stage}_p50": float(np.median(each)) for stage, each in stages.items()},
        }
    )
    store.close()


def _ask_from_threads(corpus: Path, size: int, folder: Path) -> None:
    """Measure queries per second of several threads, alone and beside one that stores items without a pause."""
    queries = read_queries(corpus, size)
    builds = IndexBuilds()
    store = open_simple(folder, {}, queries["vectors"].shape[1])
    asked = [_query(queries, at) for at in range(len(queries["texts"]))]
    builds.settle(lambda: store.search(asked[0]))
    for query in asked:
        # Otherwise one thread, which is measured first, would read from the file what several find in memory.
        store.search(query)
    figures = {f"qps_{threads}": _per_second(store, asked, threads) for threads in _THREADS}
    for threads in _THREADS:
        with _writer(store, queries):
            figures[f"qps_{threads}_writing"] = _per_second(store, asked, threads)
    store.close()
    answer(figures)


def _per_second(store: MemoryBase, asked: Sequence[MemoryQuery], threads: int) -> float:
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(store.search, asked[:threads]))
        until = time.perf_counter() + _THREADS_SECONDS
        counts: list[int] = []

        def search() -> None:
            done = 0
            while time.perf_counter() < until and done < len(asked):
                store.search(asked[done])
                done += 1
            counts.append(done)

        started = time.perf_counter()
        for future in [pool.submit(search) for _ in range(threads)]:
            future.result()
        return sum(counts) / (time.perf_counter() - started)


@contextmanager
def _writer(store: SimpleMemory, queries: Any) -> Iterator[None]:  # noqa: ANN401 - npz
    """Store items of their own conversation, one after the other, as long as the block runs."""
    done = threading.Event()

    def write() -> None:
        at = 0
        while not done.is_set():
            text, vector = str(queries["texts"][at % len(queries["texts"])]), queries["vectors"][0]
            item = PreparedItem.of(MemoryItem(content_summary=f"{text} {at}", scope=Scope(user="writer")))
            store.collection.add([replace(item, embeddings=encoding(text, vector))])
            at += 1

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            yield
        finally:
            done.set()
            writing.result()


if __name__ == "__main__":
    main()
