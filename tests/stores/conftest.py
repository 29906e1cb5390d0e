"""Stores that are closed when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryBase, MemoryContentSnapshot, MemoryWritePayload
from devmem.stores import Embedder, StoreSetup
from devmem.testing import HashEmbedder, ManualClock
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.simple import SimpleMemory

TYPES: dict[str, type[MemoryBase]] = {"simple": SimpleMemory, "blackboard": BlackboardMemory}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_store(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., MemoryBase]]:
    """Make a store of a type from its `config:` block; relative paths start in the test's folder."""
    made: list[MemoryBase] = []

    def make(kind: str, *, embedder: Embedder | None = None, session: Path | None = None, **config: Any) -> MemoryBase:
        if embedder is not None:
            config["embedding"] = {"provider": "openai", "model": "testing"}
        store_class = TYPES[kind]
        setup = StoreSetup(
            name="notes",
            store_type=kind,
            config=store_class.config_model.model_validate(config),
            base_dir=tmp_path,
            session_dir=session,
            open_embedder=lambda _: embedder or HashEmbedder(),
            clock=clock,
            monotonic=clock,
        )
        made.append(store_class(setup))
        made[-1].load()
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def exchange() -> Callable[..., MemoryWritePayload]:
    """Make what a node writes: what it was asked and what it answered."""

    def made(asked: str, answered: str, **fields: Any) -> MemoryWritePayload:
        return MemoryWritePayload(inputs_text=asked, output_snapshot=MemoryContentSnapshot(text=answered), **fields)

    return made
