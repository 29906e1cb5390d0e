"""LangGraph's InMemoryStore with an index; it is in memory only, so asking builds it first."""

from __future__ import annotations

import time

from langgraph.store.memory import InMemoryStore

from tools.bench.speed.measured.measuring import (
    answer,
    arguments,
    read_corpus,
    read_queries,
    resident_bytes,
    share_found,
    timed,
)


def main() -> None:
    """Build and ask in one process."""
    phase, corpus, size, _ = arguments()
    if phase == "build":
        answer({})
        return
    texts, vectors = read_corpus(corpus, size)
    queries = read_queries(corpus, size)
    known = {text: vectors[at] for at, text in enumerate(texts)}
    known |= {f"query {at}": vector for at, vector in enumerate(queries["vectors"])}

    def embed(asked: list[str]) -> list[list[float]]:
        return [known[text].tolist() for text in asked]

    def ask(at: int) -> list[int]:
        return [int(hit.key) for hit in store.search(("bench",), query=f"query {at}", limit=10)]

    before = resident_bytes()
    started = time.perf_counter()
    store = InMemoryStore(index={"dims": vectors.shape[1], "embed": embed, "fields": ["text"]})
    for at, text in enumerate(texts):
        store.put(("bench",), str(at), {"text": text})
    build = (time.perf_counter() - started) * 1000
    timing, found = timed(ask, len(queries["texts"]))
    after = resident_bytes()
    answer(
        {
            "build": build,
            **timing.figures("retrieve"),
            "recall@10": share_found(found, queries["nearest"]),
            "ram_bytes": None if before is None or after is None else after - before,
        }
    )


if __name__ == "__main__":
    main()
