"""The `simple` store: every exchange of a node becomes an item, found again by meaning and by words."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from devmem import Hit, MemoryContentSnapshot, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.storage import Weights
from devmem.stores import (
    ConfigModel,
    FactKeepingMemory,
    KeyedMemory,
    MemoryQuery,
    SearchReport,
    StoreSetup,
    agent_of,
    content_hash,
    item_from,
    skipped,
)
from devmem.text import indented, shorten, strip_frames
from devmem_stores.simple.config import SimpleConfig


def text_overlap(query: str, content: str) -> float:
    """Score from 0 to 1: 0.4 Jaccard of the words, 0.3 longest common subsequence, 0.2 keyword recall, 0.1 length.

    Words are split at white space, as DevAll does; the subsequence's length is divided by the longer text's.
    """
    # Imported here: only DevAll's own ranking compares so, and a command starts sooner.
    from rapidfuzz.distance import LCSseq

    query, content = query.lower(), content.lower()
    if not query or not content:
        return 0.0
    asked, there = set(query.split()), set(content.split())
    union = asked | there
    jaccard = len(asked & there) / len(union) if union else 0.0
    subsequence = LCSseq.similarity(query, content) / max(len(query), len(content))
    keywords = {word for word in asked if len(word) >= 2}
    recall = len(keywords & there) / len(keywords) if keywords else 0.0
    # A content of half to twice the query's length has 1.
    ratio = len(content) / len(query)
    length = min(2.0 * ratio, 1.0) if ratio <= 2.0 else max(0.1, 2.0 / ratio)
    return min(0.4 * jaccard + 0.3 * subsequence + 0.2 * recall + 0.1 * length, 1.0)


def summarize_exchange(asked: str, answered: str, limit: int) -> str:
    """Write `Input: ...` and `Output: ...` within `limit` characters, whole sentences first.

    Both sides are always there: the shorter takes what it needs of its half and leaves the rest to the other. A side's
    lines after its first are indented: only the labels stand at the left edge, so no text passes for the other side.
    """
    labelled = (("Input: ", indented(asked)), ("Output: ", indented(answered)))
    sides = [(label, text) for label, text in labelled if text]
    room = limit - sum(len(label) for label, _ in sides) - max(len(sides) - 1, 0)
    lengths = [len(text) for _, text in sides]
    if len(sides) == 2 and sum(lengths) > room:
        shorter = min(min(lengths), room // 2)
        limits = [shorter, room - shorter] if lengths[0] <= lengths[1] else [room - shorter, shorter]
    else:
        limits = [room] * len(sides)
    return "\n".join(label + shorten(text, most) for (label, text), most in zip(sides, limits, strict=True))


class SimpleMemory(FactKeepingMemory, KeyedMemory):
    """Keeps every exchange: a summary to show and to embed, and both sides whole."""

    config_model: ClassVar[type[ConfigModel]] = SimpleConfig
    summary: ClassVar[str] = "Conversation memory: keeps every exchange, finds it by meaning and by words"

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(SimpleConfig)

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Summarize the exchange; both sides are kept whole beside the summary."""
        asked, answered = strip_frames(payload.inputs_text), payload.output_text()
        if not asked.strip() and not answered.strip():
            return skipped("neither the input nor the output has a text")
        if len(asked.strip()) + len(answered.strip()) < self.config.min_content_length:
            return skipped(f"shorter than min_content_length = {self.config.min_content_length} characters")
        summary = summarize_exchange(asked, answered, self.config.max_content_length)
        item = item_from(payload, summary, created_at=self.setup.clock())
        # What an agent wrote whose items are not bound to it is compared with its own alone.
        writer = [name] if item.scope.agent is None and (name := agent_of(item)) else []
        return replace(
            item,
            # Over both texts whole, so that long inputs which start alike do not swallow each other's answers.
            content_hash=content_hash(
                "\x00".join([asked.strip(), answered.strip(), *writer]),
                _without_text(payload.input_snapshot),
                _without_text(payload.output_snapshot),
            ),
            metadata={**item.metadata, "content_length": len(summary)},
            # The summary may be cut; what was asked is kept whole all the same.
            input_snapshot=payload.input_snapshot or (MemoryContentSnapshot(text=asked) if asked.strip() else None),
        )

    def rank(self, query: MemoryQuery) -> SearchReport | None:
        """Rank as DevAll does, where the configuration asks for it."""
        if self.config.ranking == "hybrid":
            return None
        nearest = self.search_query(query, limit=3 * query.limit, weights=Weights(similarity=1.0, lexical=0.0))
        scored: list[Hit] = []
        for hit in self.collection.search(nearest):
            overlap = text_overlap(query.text, hit.item.content_summary)
            scored.append(replace(hit, rerank=overlap, score=0.7 * (hit.similarity or 0.0) + 0.3 * overlap))
        return SearchReport.of(sorted(scored, key=lambda hit: -hit.score)[: query.limit])


def _without_text(snapshot: MemoryContentSnapshot | None) -> MemoryContentSnapshot | None:
    return replace(snapshot, text="") if snapshot else None
