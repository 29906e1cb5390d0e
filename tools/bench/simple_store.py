"""The store that is measured: `simple` with its defaults in a file, on vectors that are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devmem.stores import EmbeddingConfig, StoreSetup, Vector
from devmem_stores.simple import SimpleConfig, SimpleMemory
from tools.bench.precomputed import PrecomputedEmbedder

FILE: Final = "bench.db"


def open_simple(folder: Path | None, known: Mapping[str, Vector], dimension: int) -> SimpleMemory:
    """Open the store in a folder; nothing is read before its first use.

    Args:
        folder: where its file is, or will be; None keeps the store in memory.
        known: the vectors of the texts that it embeds, each of shape (dimension,).
        dimension: of the vectors.
    """
    setup = StoreSetup(
        name="bench",
        store_type="simple",
        config=SimpleConfig(memory_path=FILE if folder else None, embedding=EmbeddingConfig(provider="openai")),
        base_dir=folder or Path(),
        open_embedder=lambda _: PrecomputedEmbedder(known, dimension),
    )
    return SimpleMemory(setup)
