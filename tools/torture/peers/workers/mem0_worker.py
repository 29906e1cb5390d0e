"""mem0's open-source Memory with Qdrant in the process and `infer=False`, so no model is asked."""

from __future__ import annotations

import os
import sys

os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=f"{sys.argv[2]}/mem0")

from mem0 import Memory  # type: ignore[import-untyped]
from protocol import DIMENSION, main, vector_of  # type: ignore[import-not-found]


class Known:
    """Stands in for mem0's embedding model."""

    config = None

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002 - as mem0 calls it
        """Return the vector of a text."""
        return vector_of(text)  # type: ignore[no-any-return]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.embed(text, memory_action) for text in texts]


def opened(folder: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Open the memory of a folder."""
    key = {"api_key": "unused"}
    store = {
        "path": f"{folder}/qdrant",
        "on_disk": True,
        "embedding_model_dims": DIMENSION,
        "collection_name": "torture",
    }
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "llm": {"provider": "openai", "config": key},
            "embedder": {"provider": "openai", "config": {**key, "embedding_dims": DIMENSION}},
            "history_db_path": f"{folder}/history.db",
        }
    )
    memory.embedding_model = Known()

    def add(_: str, text: str) -> None:
        memory.add(text, user_id="tester", infer=False)

    def texts() -> list[str]:
        found = memory.get_all(filters={"user_id": "tester"}, top_k=1_000_000)
        return [one["memory"] for one in found["results"]]

    return add, texts


main(opened)
