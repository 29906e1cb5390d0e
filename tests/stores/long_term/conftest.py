"""Long-term stores that open the same file each time, and are closed when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from devmem.stores import Embedder, StoreSetup
from devmem.testing import HashEmbedder, ManualClock
from devmem_stores.long_term import LongTermConfig, LongTermMemory


class OpenStore(Protocol):
    def __call__(self, *, embedder: Embedder | None = None, **config: Any) -> LongTermMemory: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_store(tmp_path: Path, clock: ManualClock) -> Iterator[OpenStore]:
    """Open a store on the test's file from its `config:` block, with an embedder or without."""
    opened: list[LongTermMemory] = []

    def made(*, embedder: Embedder | None = None, **config: Any) -> LongTermMemory:
        block = {"memory_path": "memory.db", **config}
        if embedder is not None:
            block["embedding"] = {"provider": "openai", "model": "testing"}
        setup = StoreSetup(
            name="ideas",
            store_type="long_term",
            config=LongTermConfig.model_validate(block),
            base_dir=tmp_path,
            open_embedder=lambda _: embedder or HashEmbedder(),
            clock=clock,
            monotonic=clock,
        )
        opened.append(LongTermMemory(setup))
        opened[-1].load()
        return opened[-1]

    yield made
    for store in opened:
        store.close()
