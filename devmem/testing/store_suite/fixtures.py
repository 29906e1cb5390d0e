"""Fixtures of the suite: how a store is opened, and the exchanges that are written to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import pytest
from pydantic import JsonValue

from devmem.model.items import MemoryContentSnapshot
from devmem.model.results import MemoryWritePayload
from devmem.models.embedder import Embedder
from devmem.stores.memory import MemoryBase, StoreSetup
from devmem.testing.abilities import OnlyWhatApplies
from devmem.testing.clock import ManualClock
from devmem.testing.embedders import HashEmbedder

NAME: Final = "suite"
EMBEDDING: Final[Mapping[str, JsonValue]] = {"provider": "openai", "model": "testing"}
"""Any model: the suite opens its own embedder in its place."""


class OpenStore(Protocol):
    """Opens the same place each time it is called, loads the store, and closes it when the test is over."""

    def __call__(self, *, embedder: Embedder | None = None, clock: ManualClock | None = None) -> MemoryBase:
        """Open it with an embedder, or without one; `clock` is its time."""
        ...


class Opening(OnlyWhatApplies):
    """Attributes of a store's test class, and the fixtures made of them."""

    store_class: ClassVar[type[MemoryBase]]
    """The type under test."""
    config: ClassVar[Mapping[str, JsonValue]] = {}
    """Its `config:` block; relative paths start in the test's own folder."""
    persists: ClassVar[bool] = True
    """Whether items outlive the store with this configuration."""
    searches: ClassVar[bool] = True
    """Whether it finds what fits the query; otherwise it returns the same for every query."""
    embeds: ClassVar[bool] = True
    """Whether its configuration takes an `embedding:` block."""

    def kept(self, payload: MemoryWritePayload) -> MemoryWritePayload:
        """Return a payload that the store keeps; a class of a store that is selective adds what the store looks for."""
        return payload

    def exchange(self, asked: str, answered: str, **fields: Any) -> MemoryWritePayload:  # noqa: ANN401 - fields of every type
        """Return the payload of a node that has answered, one that the store keeps."""
        said = MemoryWritePayload(
            inputs_text=asked,
            input_snapshot=MemoryContentSnapshot(text=f"(user) {asked}"),
            output_snapshot=MemoryContentSnapshot(text=answered),
            **fields,
        )
        return self.kept(said)

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[OpenStore]:
        """Open stores; a test class overrides this where a store needs more."""
        opened: list[MemoryBase] = []

        def open_store(*, embedder: Embedder | None = None, clock: ManualClock | None = None) -> MemoryBase:
            clock = clock or ManualClock()
            block = {**self.config, **({"embedding": dict(EMBEDDING)} if embedder and self.embeds else {})}
            setup = StoreSetup(
                name=NAME,
                store_type=NAME,
                config=self.store_class.config_model.model_validate(block),
                base_dir=tmp_path,
                session_dir=tmp_path / "session",
                open_embedder=lambda _: embedder or HashEmbedder(),
                clock=clock,
                monotonic=clock,
            )
            opened.append(self.store_class(setup))
            opened[-1].load()
            return opened[-1]

        yield open_store
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, open_store: OpenStore) -> MemoryBase:
        """An empty store with an embedder, if it takes one."""
        return open_store(embedder=HashEmbedder())
