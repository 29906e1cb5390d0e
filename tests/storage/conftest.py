"""Notes with embeddings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devmem import MemoryItem
from devmem.testing import HashEmbedder


@pytest.fixture
def embedder() -> HashEmbedder:
    """The embedder that the scripts use too."""
    return HashEmbedder(dimension=32)


@pytest.fixture
def notes(embedder: HashEmbedder) -> Callable[..., list[MemoryItem]]:
    """Make items `start` to `stop` of an endless list, each with its embedding."""

    def made(start: int, stop: int, *, about: str = "note") -> list[MemoryItem]:
        texts = [f"{about} number {n} about {('tea', 'rain', 'trains', 'bread')[n % 4]}" for n in range(start, stop)]
        vectors = embedder.embed(texts)
        return [
            MemoryItem(id=f"{about} {start + at}", content_summary=text, embedding=vectors[at])
            for at, text in enumerate(texts)
        ]

    return made
