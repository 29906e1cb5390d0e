"""A folder of documents, and stores over it that count what they embed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devmem.stores import Embedder, MemoryQuery, StoreSetup
from devmem.testing import HashEmbedder
from devmem_stores.file import FileConfig, FileMemory

GUIDE = """# Guide

How to use the boiler.

## Places

The boiler stands in the cellar. The key hangs beside the door.

## Care

Clean the filter every spring.

```sh
boiler --clean --filter 7
boiler --restart
```
"""


class Folder:
    """A folder with documents, and the stores that were opened over it."""

    def __init__(self, base: Path) -> None:
        self.base, self.docs = base, base / "docs"
        self.docs.mkdir()
        self.embedder: Embedder = HashEmbedder(32)
        self._open: list[FileMemory] = []

    @property
    def embedded(self) -> list[str]:
        """Every text that was embedded since the last look."""
        assert isinstance(self.embedder, HashEmbedder)
        texts = list(self.embedder.texts)
        self.embedder.texts.clear()
        return texts

    def write(self, name: str, content: str | bytes) -> Path:
        file = self.docs / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def make(self, **config: Any) -> FileMemory:
        settings = {"index_path": "index.db", "file_sources": "docs", "embedding": {"provider": "openai"}} | config
        if isinstance(settings["file_sources"], str):
            settings["file_sources"] = {"path": settings["file_sources"]}
        store = FileMemory(
            StoreSetup(
                name="docs",
                store_type="file",
                config=FileConfig.model_validate(settings),
                base_dir=self.base,
                open_embedder=lambda _: self.embedder,
            )
        )
        self._open.append(store)
        return store

    def load(self, **config: Any) -> FileMemory:
        store = self.make(**config)
        store.load()
        return store

    def reload(self, store: FileMemory, **config: Any) -> FileMemory:
        store.close()
        return self.load(**config)

    def close(self) -> None:
        for store in self._open:
            store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    made.write("guide.md", GUIDE)
    yield made
    made.close()


def found(store: FileMemory, text: str, top_k: int = 3) -> list[str]:
    """The citations of the best chunks."""
    return [str(hit.item.metadata["citation"]) for hit in store.search(MemoryQuery(text=text, limit=top_k))]


def names(store: FileMemory) -> list[str]:
    """The files that have chunks."""
    return sorted({str(item.metadata["path"]) for item in store.collection.scan()})


def texts(store: FileMemory) -> list[str]:
    return sorted(item.content_summary for item in store.collection.scan())
