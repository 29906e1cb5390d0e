"""The `blackboard` store: a shared log of what the nodes said last."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from devmem import (
    CollectionMemory,
    ConfigModel,
    Hit,
    MemoryItem,
    MemoryQuery,
    MemoryWritePayload,
    Provenance,
    SourceKind,
    StoreSetup,
    Unique,
    WriteOutcome,
    skipped,
    strip_frames,
)
from devmem_stores.blackboard.config import BlackboardConfig


class BlackboardMemory(CollectionMemory):
    """Appends every output, and gives the last ones, whatever the query."""

    config_model: ClassVar[type[ConfigModel]] = BlackboardConfig
    summary: ClassVar[str] = "Shared log: gives every node the last entries, without searching"
    unique: ClassVar[Unique] = Unique.ID

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(BlackboardConfig)

    def _compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        asked = strip_frames(payload.inputs_text)
        snapshot_text = payload.input_snapshot.text if payload.input_snapshot else ""
        texts = (payload.output_text(), asked, snapshot_text)
        text = next((text.strip() for text in texts if text.strip()), "")
        if not text:
            return skipped("neither the output nor the input has a text")
        shown = payload.output_snapshot or payload.input_snapshot
        return MemoryItem(
            id=f"bb_{uuid4().hex}",
            content_summary=text,
            metadata={
                **payload.metadata,
                "agent_role": payload.agent_role,
                "input_preview": asked[:200],
                "attachments": list(shown.attachment_overview()) if shown else [],
            },
            created_at=self.setup.clock(),
            event_time=payload.event_time,
            expires_at=self.setup.clock() + self.config.max_age if self.config.max_age else None,
            input_snapshot=payload.input_snapshot,
            output_snapshot=payload.output_snapshot,
            scope=payload.scope,
            provenance=Provenance(kind=SourceKind.NODE, name=payload.source),
            trust=payload.trust,
        )

    def _cap(self) -> int:
        return self.config.max_items

    def _search(self, query: MemoryQuery) -> list[Hit]:
        items = self.collection.recent(query.top_k, query.where)
        # Newest = 1; the board has no other order.
        hits = [Hit(item=item, score=1 / (1 + age), recency=1 / (1 + age)) for age, item in enumerate(items)]
        return hits if self.config.order == "newest" else hits[::-1]
