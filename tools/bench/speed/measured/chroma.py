"""Chroma's persistent client: an HNSW index and SQLite, on the vectors that it is given."""

from __future__ import annotations

import time

import chromadb
from chromadb.config import Settings

from tools.bench.speed.measured.measuring import (
    answer,
    arguments,
    bytes_in,
    read_corpus,
    read_queries,
    resident_bytes,
    share_found,
    timed,
)

_BATCH = 1_000


def main() -> None:
    """Build or ask."""
    phase, corpus, size, folder = arguments()
    settings = Settings(anonymized_telemetry=False)
    if phase == "build":
        texts, vectors = read_corpus(corpus, size)
        started = time.perf_counter()
        client = chromadb.PersistentClient(str(folder), settings)
        collection = client.create_collection("bench", metadata={"hnsw:space": "cosine"}, embedding_function=None)
        for at in range(0, size, _BATCH):
            chosen = slice(at, min(at + _BATCH, size))
            ids = [str(number) for number in range(chosen.start, chosen.stop)]
            collection.add(ids=ids, embeddings=vectors[chosen], documents=texts[chosen])
        answer({"build": (time.perf_counter() - started) * 1000})
        return
    queries = read_queries(corpus, size)
    before = resident_bytes()

    def ask(at: int) -> list[int]:
        found = collection.query(query_embeddings=queries["vectors"][at : at + 1], n_results=10, include=["documents"])
        return [int(name) for name in found["ids"][0]]

    started = time.perf_counter()
    client = chromadb.PersistentClient(str(folder), settings)
    collection = client.get_collection("bench", embedding_function=None)
    ask(0)
    cold_open = (time.perf_counter() - started) * 1000
    timing, found = timed(ask, len(queries["texts"]))
    after = resident_bytes()
    answer(
        {
            **timing.figures("retrieve"),
            "recall@10": share_found(found, queries["nearest"]),
            "cold_open": cold_open,
            "ram_bytes": None if before is None or after is None else after - before,
            "disk_bytes": bytes_in(folder),
        }
    )


if __name__ == "__main__":
    main()
