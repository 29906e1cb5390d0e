"""`DevmemStorage` in the place of CrewAI's `LanceDBStorage` and `QdrantEdgeStorage`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final

from crewai.memory.storage import lancedb_storage

import devmem
from devmem.adapters.crewai import DevmemStorage
from devmem.errors import EmbeddingUnavailableError
from devmem.stores import ModelIdentity, Vector

_FOLDER: Final = TemporaryDirectory(prefix="devmem-crewai-")
"""Folder of storages that are made without one, until the process ends."""


class _GivenVectors:
    """The vectors come with the tests' records and questions."""

    def __init__(self, dimension: int | None) -> None:
        self._identity = ModelIdentity(name=f"crewai:{dimension}", dimension=dimension)

    @property
    def identity(self) -> ModelIdentity:
        return self._identity

    def embed(self, texts: Sequence[str]) -> Vector:  # noqa: ARG002
        raise EmbeddingUnavailableError("the tests embed their texts themselves")


class Storage(DevmemStorage):
    """A storage that is made as CrewAI's are."""

    def __init__(self, path: str | Path | None = None, vector_dim: int | None = None, **_options: Any) -> None:  # noqa: ANN401
        place = Path(path or _FOLDER.name)
        place.mkdir(parents=True, exist_ok=True)
        super().__init__(devmem.open(place / "memory.db", embedding=_GivenVectors(vector_dim)))

    def close(self) -> None:
        """Leave the memory open, as the tests count after it."""


def _qdrant() -> ModuleType:
    """Return a module with the storage under the other name, whose own package is not installed."""
    module = ModuleType("crewai.memory.storage.qdrant_edge_storage")
    module.QdrantEdgeStorage = Storage  # type: ignore[attr-defined]
    return module


lancedb_storage.LanceDBStorage = Storage
sys.modules["crewai.memory.storage.qdrant_edge_storage"] = _qdrant()
if "qdrant_edge" not in sys.modules:
    # The tests look for the package that they are about.
    stand_in = ModuleType("qdrant_edge")
    stand_in.__spec__ = ModuleSpec("qdrant_edge", None)
    sys.modules["qdrant_edge"] = stand_in
