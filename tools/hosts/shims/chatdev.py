"""`ChatDevMemory` in the place of ChatDev's classes, which its tests make by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from entity.configs.node.memory import Mem0MemoryConfig, SimpleMemoryConfig
from runtime.node.agent.memory import mem0_memory, simple_memory

from devmem.adapters.chatdev import install
from devmem.adapters.chatdev.stores import ChatDevMemory, Installation
from devmem.plugins import registry
from devmem.stores import ModelIdentity, StoreSetup, Vector, load_item

# The tests put a client of their own in the place of what this function returns.
_INSTALLATION = Installation(mem0_client=lambda config: mem0_memory._get_mem0_client(config))  # noqa: SLF001


class _Embedder:
    """ChatDev's embedding model, or what the tests put in its place, as devmem's."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        self._model = model
        self._identity = ModelIdentity(name="chatdev", dimension=len(model.get_embedding("")))

    @property
    def identity(self) -> ModelIdentity:
        return self._identity

    def embed(self, texts: Sequence[str]) -> Vector:
        vectors: Vector = np.array([self._model.get_embedding(text) for text in texts], dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


class SimpleMemory(ChatDevMemory):
    """Takes the model and the items that the tests assign."""

    def __init__(self, store: Any) -> None:  # noqa: ANN401
        config = store.as_config(SimpleMemoryConfig)
        super().__init__(SimpleNamespace(name=store.name, config=config), "simple", _INSTALLATION)

    @property  # type: ignore[override] # as the tests assign it
    def embedding(self) -> object:
        """None: the model is devmem's."""
        return None

    @embedding.setter
    def embedding(self, model: Any) -> None:  # noqa: ANN401
        if model is None:
            return
        config = registry.config_model("simple").model_validate({"embedding": {}})
        setup = StoreSetup(
            name=self.name, store_type="simple", config=config, open_embedder=lambda _config: _Embedder(model)
        )
        self.kept = registry.get("simple").factory(setup)

    @property
    def contents(self) -> list[Any]:
        """All items."""
        return super().contents

    @contents.setter
    def contents(self, items: list[Any]) -> None:
        # Without their vectors: devmem embeds what another model embedded.
        self.kept.add([load_item({**item.to_dict(), "embedding": None}) for item in items])


class Mem0Memory(ChatDevMemory, mem0_memory.Mem0Memory):  # type: ignore[misc] # see `ChatDevMemory`
    """Keeps the helpers of ChatDev's class."""

    def __init__(self, store: Any) -> None:  # noqa: ANN401
        config = store.as_config(Mem0MemoryConfig)
        super().__init__(SimpleNamespace(name=store.name, config=config), "mem0", _INSTALLATION)


install(mem0_client=_INSTALLATION.mem0_client)
simple_memory.SimpleMemory = SimpleMemory
mem0_memory.Mem0Memory = Mem0Memory
