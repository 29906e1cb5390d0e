"""`DevmemStore` in the place of LangGraph's `InMemoryStore` and `SqliteStore`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import langgraph.store.memory
import langgraph.store.sqlite
from langgraph.store.base import IndexConfig, TTLConfig

import devmem
from devmem.adapters.langgraph import DevmemStore, embedder_of


class InMemoryStore(DevmemStore):
    """A store in memory that is made as LangGraph's is."""

    def __init__(self, *, index: IndexConfig | None = None) -> None:
        model = embedder_of(index) if index else None
        super().__init__(
            devmem.open(":memory:", embedding=model), index=index, scores="cosine" if index else "relevance"
        )


class SqliteStore(DevmemStore):
    """A store in a file that is made as LangGraph's is."""

    MIGRATIONS = langgraph.store.sqlite.SqliteStore.MIGRATIONS

    def setup(self) -> None:
        """Do nothing: opening a memory makes its tables."""

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, path: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> Iterator[SqliteStore]:
        """Open a file."""
        model = embedder_of(index) if index else None
        fields = {"fields": index["text_fields"]} if index and index.get("text_fields") else {}
        with devmem.open(path, embedding=model) as memory:
            config: Any = {**index, **fields} if index else None
            yield cls(memory, index=config, ttl=ttl, scores="cosine" if index else "relevance")


langgraph.store.memory.InMemoryStore = InMemoryStore
langgraph.store.sqlite.SqliteStore = SqliteStore
