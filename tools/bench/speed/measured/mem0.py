"""mem0's open-source Memory: its default vector store (Qdrant in the process), `infer=False`, so no model is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench.speed.measured.measuring import answer, arguments, ask_all, read_corpus, read_queries


class Known:
    """Returns precomputed vectors in place of mem0's embedding model."""

    config = None

    def __init__(self, vectors: Mapping[str, Any]) -> None:
        self._vectors = vectors

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002 - as mem0 calls it
        """Return the vector of a text."""
        found: list[float] = self._vectors[text].tolist()
        return found

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.embed(text, memory_action) for text in texts]


def imported(folder: Path) -> Any:  # noqa: ANN401 - mem0's class
    """Import mem0, which writes to its folder when it is imported, so that it writes here and sends nothing."""
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(folder / "mem0"))
    from mem0 import Memory  # type: ignore[import-untyped]

    return Memory


def opened(kind: Any, folder: Path, vectors: Mapping[str, Any], dimension: int) -> Any:  # noqa: ANN401 - mem0's Memory
    """Open the store in a folder."""
    key = {"api_key": "unused"}
    config = {
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": str(folder / "qdrant"),
                "on_disk": True,
                "embedding_model_dims": dimension,
                "collection_name": "bench",
            },
        },
        "llm": {"provider": "openai", "config": key},
        "embedder": {"provider": "openai", "config": {**key, "embedding_dims": dimension}},
        "history_db_path": str(folder / "history.db"),
    }
    memory = kind.from_config(config)
    memory.embedding_model = Known(vectors)
    return memory


def main() -> None:
    """Build or ask."""
    phase, corpus, size, folder = arguments()
    kind = imported(folder)
    if phase == "build":
        texts, vectors = read_corpus(corpus, size)
        started = time.perf_counter()
        memory = opened(kind, folder, dict(zip(texts, vectors, strict=True)), vectors.shape[1])
        for at, text in enumerate(texts):
            memory.add(text, user_id="bench", metadata={"number": at}, infer=False)
        answer({"build": (time.perf_counter() - started) * 1000})
        return
    queries = read_queries(corpus, size)
    known = {f"query {at}": vector for at, vector in enumerate(queries["vectors"])}

    def asking() -> Callable[[int], list[int]]:
        memory = opened(kind, folder, known, queries["vectors"].shape[1])
        return lambda at: _asked(memory, f"query {at}")

    ask_all(asking, queries, folder)


def _asked(memory: Any, text: str) -> list[int]:  # noqa: ANN401 - mem0's Memory
    found = memory.search(text, filters={"user_id": "bench"}, top_k=10)
    return [hit["metadata"]["number"] for hit in found["results"]]


if __name__ == "__main__":
    main()
