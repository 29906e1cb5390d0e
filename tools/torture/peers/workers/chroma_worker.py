"""Chroma's persistent client."""

from __future__ import annotations

import chromadb
from chromadb.config import Settings
from protocol import main, vector_of  # type: ignore[import-not-found]


def opened(folder: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Open the collection of a folder."""
    client = chromadb.PersistentClient(f"{folder}/store", Settings(anonymized_telemetry=False))
    collection = client.get_or_create_collection("torture", embedding_function=None)

    def add(name: str, text: str) -> None:
        collection.add(ids=[name], embeddings=[vector_of(text)], documents=[text])

    return add, lambda: collection.get()["documents"]


main(opened)
