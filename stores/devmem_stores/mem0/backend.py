"""The interface to mem0, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from devmem_stores.mem0.filters import Ids
from devmem_stores.mem0.items import Change, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A text to remember."""

    key: str
    """Marks the memories that are made of it, so that a repeated write can be told from a new one."""
    text: str
    ids: Ids
    infer: bool
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    timestamp: int | None = None
    """When it happened: seconds since the epoch; the platform takes it for the time of creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of memories."""

    records: tuple[Record, ...]
    total: int
    """Number of memories on all pages."""
    more: bool


class Backend(Protocol):
    """mem0, hosted or in this process. Every method raises `Mem0Error`."""

    @property
    def location(self) -> str:
        """Location of the memories."""
        ...

    def search(self, text: str, ids: Ids, top_k: int, threshold: float | None) -> list[Record]:
        """Return the best memories, best first; no threshold means mem0's own."""
        ...

    def add(self, write: Write) -> str | None:
        """Remember a text; return the id of the first memory, None when mem0 does not say."""
        ...

    def page(self, ids: Ids, number: int, size: int, metadata: Mapping[str, str] | None = None) -> Page:
        """Return a page (from 1) of the memories of these ids, those with this metadata only."""
        ...

    def get(self, memory_id: str) -> Record | None:
        """Return one memory by mem0's id (a UUID, which can stand in a path); None when there is none."""
        ...

    def delete(self, memory_id: str) -> bool:
        """Delete one memory by mem0's id; false when there was none."""
        ...

    def delete_all(self, ids: Mapping[str, str]) -> None:
        """Delete every memory that has all of these ids (at least one)."""
        ...

    def history(self, memory_id: str) -> list[Change]:
        """Return the changes of a memory, oldest first."""
        ...

    def close(self) -> None:
        """Release connections and files; closing twice is allowed."""
        ...
