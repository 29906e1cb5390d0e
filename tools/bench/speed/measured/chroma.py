"""Chroma's persistent client: an HNSW index and SQLite, on the vectors that it is given."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import chromadb
from chromadb.config import Settings

from tools.bench.speed.measured.measuring import answer, arguments, ask_all, read_corpus, read_queries

_BATCH_SIZE = 1_000


def main() -> None:
    """Build or ask."""
    phase, corpus, size, folder = arguments()
    settings = Settings(anonymized_telemetry=False)
    if phase == "build":
        texts, vectors = read_corpus(corpus, size)
        started = time.perf_counter()
        client = chromadb.PersistentClient(str(folder), settings)
        collection = client.create_collection("bench", metadata={"hnsw:space": "cosine"}, embedding_function=None)
        for at in range(0, size, _BATCH_SIZE):
            chosen = slice(at, min(at + _BATCH_SIZE, size))
            ids = [str(number) for number in range(chosen.start, chosen.stop)]
            collection.add(ids=ids, embeddings=vectors[chosen], documents=texts[chosen])
        answer({"build": (time.perf_counter() - started) * 1000})
        return
    queries = read_queries(corpus, size)

    def opened() -> Callable[[int], list[int]]:
        collection = chromadb.PersistentClient(str(folder), settings).get_collection("bench", embedding_function=None)
        return lambda at: _asked(collection, queries["vectors"][at : at + 1])

    ask_all(opened, queries, folder)


def _asked(collection: chromadb.Collection, vector: Any) -> list[int]:  # noqa: ANN401 - of a file of arrays
    found = collection.query(query_embeddings=vector, n_results=10, include=["documents"])
    return [int(name) for name in found["ids"][0]]


if __name__ == "__main__":
    main()
