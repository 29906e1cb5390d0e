"""Stores whose answers and failures a test decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devmem import (
    Filter,
    Hit,
    MemoryBase,
    MemoryContentSnapshot,
    MemoryItem,
    MemoryManager,
    MemoryRetrievalResult,
    MemoryWritePayload,
    WriteOutcome,
)
from devmem.config import Attachment
from devmem.storage import CollectionInfo, Order
from devmem.stores import ConfigModel, MemoryQuery, Progress, SearchReport, StoreSetup, WriteStatus


class StrangeError(Exception):
    """An exception of foreign code: none of devmem's errors, and its text fails too."""

    def __str__(self) -> str:
        return "the strange store is out of order"


class ScriptedStore(MemoryBase):
    """Returns the hits that it was given, records its calls, and fails where it was told to."""

    config_model = ConfigModel
    summary = "A double"

    def __init__(self, name: str = "notes", hits: Sequence[Hit] = ()) -> None:
        super().__init__(StoreSetup(name=name, store_type="scripted", config=ConfigModel()))
        self.hits = list(hits)
        self.failing: dict[str, BaseException] = {}
        """The exception to raise, by operation: `load`, `search`, `update`, `save`, `close`."""
        self.queries: list[MemoryQuery] = []
        self.payloads: list[MemoryWritePayload] = []
        """The payloads written, in order."""
        self.tried = 0
        """How often a write was tried."""
        self.saved = self.closed = 0
        self.before_search: Callable[[], None] = lambda: None
        self.before_update: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def _fail(self, operation: str) -> None:
        if operation in self.failing:
            raise self.failing[operation]

    def load(self) -> None:
        self._fail("load")

    def save(self) -> None:
        self._fail("save")
        self.saved += 1

    def answer(self, query: MemoryQuery) -> SearchReport:
        self.before_search()
        with self._lock:
            self.queries.append(query)
        self._fail("search")
        return SearchReport.of(self.hits[: query.limit])

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        self.before_update()
        with self._lock:
            self.tried += 1
            self._fail("update")
            self.payloads.append(payload)
            return WriteOutcome(status=WriteStatus.STORED, item_id=str(len(self.payloads)))

    def add(self, items: Sequence[MemoryItem], progress: Progress | None = None) -> list[WriteOutcome]:
        raise NotImplementedError

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        return [found.item for found in self.hits if found.item.id in ids]

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        return [found.item for found in self.hits[offset:][:limit]]

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        return 0

    def clear(self) -> int:
        return 0

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        return 0

    def count(self, where: Filter | None = None) -> int:
        return len(self.payloads)

    def info(self) -> CollectionInfo:
        return CollectionInfo(location="", items=0, waiting=0, size_bytes=0, embedding=None, dimension=None)

    def close(self) -> None:
        self.closed += 1
        self._fail("close")


def hit(text: str, score: float = 1.0, *, store: str = "notes", **item: Any) -> Hit:
    """A hit whose item says `text`."""
    return Hit(item=MemoryItem(content_summary=text, **item), score=score, store=store)


def said(asked: str = "", answer: str | None = None, **more: Any) -> MemoryWritePayload:
    """Return the payload of a node that was asked and has answered."""
    output = MemoryContentSnapshot(text=answer) if answer is not None else None
    return MemoryWritePayload(inputs_text=asked, output_snapshot=output, **more)


def retrieved(manager: MemoryManager, query: str, **asked: Any) -> MemoryRetrievalResult:
    """Return what a manager finds, which is something."""
    result = manager.retrieve(query=query, **asked)
    assert result is not None
    return result


def manager_of(*stores: MemoryBase, each: Mapping[str, Any] | None = None, **more: Any) -> MemoryManager:
    """A manager that reads and writes all the stores; `each` is what every attachment says beside the name."""
    attachments = [Attachment.model_validate({"name": store.name, **(each or {})}) for store in stores]
    return MemoryManager(attachments, {store.name: store for store in stores}, **more)
