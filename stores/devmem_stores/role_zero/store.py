"""The `role_zero` store: every message once and for good; the newest are a role's window, the others are recalled.

A message is one item. Whether it is in the window or in long-term memory is its place in the order in which messages
came, and so nothing is moved between two places: no kill can lose a message on the way or leave it in both.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Final

from devmem import Hit, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.collections import Unique
from devmem.stores import (
    ConfigModel,
    MemoryQuery,
    QueryEmbedding,
    SearchReport,
    StoreSetup,
    item_from,
    shorten,
    skipped,
    strip_frames,
)
from devmem_stores.role_zero.config import RoleZeroConfig
from devmem_stores.role_zero.identity import is_own
from devmem_stores.role_zero.node_recall import NodeRecall
from devmem_stores.role_zero.ranking import ChatRanker, Ranker
from devmem_stores.role_zero.role import RoleMemory
from devmem_stores.role_zero.rules import (
    Importance,
    QueryBuilder,
    Rules,
    Trigger,
    configured_query,
    configured_trigger,
    importance_of,
)
from devmem_stores.role_zero.window import OutboxMemory

_QUERIES_KEPT: Final = 128


class RoleZeroMemory(OutboxMemory):
    """Keeps whole conversations; `role` returns one role's memory, with its window and what it recalls.

    A write that the collection cannot take waits in the outbox, in order, and is delivered later, once.
    """

    config_model: ClassVar[type[ConfigModel]] = RoleZeroConfig
    summary: ClassVar[str] = (
        "A role's messages: the newest as they are, related older ones recalled (MetaGPT's RoleZero)"
    )
    unique: ClassVar[Unique] = Unique.ID

    def __init__(
        self,
        setup: StoreSetup,
        *,
        trigger: Trigger | None = None,
        query_builder: QueryBuilder | None = None,
        ranker: Ranker | None = None,
        importance: Importance = importance_of,
    ) -> None:
        """Prepare the store; what is not given here is what the configuration says.

        Args:
            setup: the declaration.
            trigger: whether related messages are searched for.
            query_builder: makes the text to search for.
            ranker: orders the candidates.
            importance: rates a message from 0 to 1, for `min_importance`.
        """
        super().__init__(setup)
        config = self.config
        self._rules = Rules(
            config=config,
            trigger=trigger or configured_trigger(config),
            query_builder=query_builder or configured_query(config),
            ranker=ranker or (ChatRanker(config.llm_ranker) if config.llm_ranker else None),
            importance=importance,
            earlier_messages=config.memory_k if query_builder else _earlier_messages(config),
        )
        self._node_recall = NodeRecall(self, self._rules, self._embedding_of)
        self._query_embedding = lru_cache(_QUERIES_KEPT)(QueryEmbedding)

    def role(self, name: str, *, user: str = "", session: str = "") -> RoleMemory:
        """Return the memory of one role for one user and session; no other memory's messages are in it."""
        return RoleMemory(self, self._rules, self._embedding_of, Scope(agent=name, user=user, session=session))

    def _embedding_of(self, text: str) -> QueryEmbedding:
        """Return the embedding of a query, made once for the last queries; one whose provider failed is tried again."""
        known = self._query_embedding(text)
        return QueryEmbedding(text) if known.failures else known

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Put what was asked before what was answered."""
        asked, answered = strip_frames(payload.inputs_text).strip(), payload.output_text().strip()
        if not asked and not answered:
            return skipped("neither the input nor the output has a text")
        summary = _exchange(asked, answered, self.config.max_content_length)
        return item_from(payload, summary, created_at=self.setup.clock())

    def rank(self, query: MemoryQuery) -> SearchReport:
        """Find related messages of the asking agent, best first; the newest ones fill the places that are left."""

        def own(item: MemoryItem) -> bool:
            return self.config.shared or is_own(item, query)

        related = self._node_recall.related(query, own)
        room = query.top_k - len(related.hits)
        if room > 0 and query.similarity_threshold <= -1:
            there = {hit.item.id for hit in related.hits}
            window = self.recent(self.config.memory_k, query.where)
            newest = [item for item in window if own(item) and item.id not in there]
            filling = (Hit(item=item, score=0.0, recency=1 / (1 + age)) for age, item in enumerate(newest[:room]))
            return replace(related, hits=(*related.hits, *filling))
        return related


def _earlier_messages(config: RoleZeroConfig) -> int:
    return 0 if config.query == "last_message" else config.query_turns - 1


def _exchange(asked: str, answered: str, limit: int) -> str:
    """Put what was asked before what was answered, each whole if both fit, otherwise each within its half."""
    sides = [text for text in (asked, answered) if text]
    if sum(map(len, sides)) + 1 > limit:
        room = (limit - 1) // len(sides)
        spare = sum(max(room - len(text), 0) for text in sides)
        sides = [shorten(text, room + spare) for text in sides]
    return "\n".join(sides)
