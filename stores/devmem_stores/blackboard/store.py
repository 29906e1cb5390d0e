"""The `blackboard` store: a shared log of what the nodes said last."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar
from uuid import uuid4

from devmem import Hit, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.stores import ConfigModel, KeyedMemory, MemoryQuery, SearchReport, StoreSetup, item_from, skipped
from devmem.text import strip_frames
from devmem_stores.blackboard.config import BlackboardConfig


class BlackboardMemory(KeyedMemory):
    """Appends every output, and returns the last ones, whatever the query."""

    config_model: ClassVar[type[ConfigModel]] = BlackboardConfig
    summary: ClassVar[str] = "Shared log: every node sees the last entries, without searching"

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(BlackboardConfig)

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Take the output as an entry, or the input where there is no output or it only quotes the board."""
        asked = strip_frames(payload.inputs_text)
        snapshot_text = payload.input_snapshot.text if payload.input_snapshot else ""
        answered = payload.output_text()
        texts = (asked, answered) if payload.quoted else (answered, asked, snapshot_text)
        text = next((text.strip() for text in texts if text.strip()), "")
        if not text:
            return skipped("neither the output nor the input has a text")
        return replace(item_from(payload, text, created_at=self.setup.clock()), id=f"bb_{uuid4().hex}")

    def rank(self, query: MemoryQuery) -> SearchReport:
        """Return the last entries, whatever the query."""
        items = self.collection.recent(query.limit, query.where)
        # Newest = 1; the board has no other order.
        hits = [Hit(item=item, score=1 / (1 + age), recency=1 / (1 + age)) for age, item in enumerate(items)]
        return SearchReport.of(hits if self.config.order == "newest" else hits[::-1])
