"""The `role_zero` store: every message once, permanently; the newest are a role's window, the others are recalled.

A message is one item. Whether it is in the window or in long-term memory is its place in the order in which messages
came, and so nothing is moved between two places: no kill can lose a message on the way or leave it in both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Final

from devmem import DevmemError, Hit, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.messages import Message, Role, UserMessage, holds_message, item_to_message
from devmem.stores import (
    AGENT_KEY,
    ConfigModel,
    MemoryQuery,
    QueryEmbedding,
    SearchReport,
    StoreSetup,
    item_from,
    skipped,
)
from devmem.text import last_sender, shorten, strip_frames
from devmem_stores.role_zero.config import (
    ChatRanker,
    Importance,
    QueryBuilder,
    Ranker,
    RoleZeroConfig,
    Rules,
    Situation,
    Trigger,
    configured_query,
    configured_trigger,
    importance_of,
)
from devmem_stores.role_zero.role import RoleMemory
from devmem_stores.role_zero.window import OutboxMemory


def is_own(item: MemoryItem, query: MemoryQuery) -> bool:
    """Whether the asking agent wrote an item, or nobody is known to have written it.

    An agent is known by its name. Items of devmem 0.1.0 name the prompt that their agent had, and the node: either is
    enough, so that an edited prompt costs no memory.
    """
    names = {query.caller.agent, query.caller.node, query.agent_role} - {""}
    if not names:
        return True
    writer = item.scope.agent or item.metadata.get(AGENT_KEY)
    if writer is not None:
        return writer in names
    prompt = item.metadata.get("agent_role")
    return not prompt or not names.isdisjoint((prompt, item.provenance.name))


_LOG: Final = logging.getLogger(__name__)


class NodeRecall:
    """Applies a store's rules to the queries of nodes; safe to use from several threads."""

    def __init__(self, store: OutboxMemory, rules: Rules, embedding_of: Callable[[str], QueryEmbedding]) -> None:
        self._store, self._rules, self._embedding_of = store, rules, embedding_of

    def related(self, query: MemoryQuery, own: Callable[[MemoryItem], bool]) -> SearchReport:
        """Return the related messages, best first, when the trigger says so.

        Args:
            query: the node's query; its `top_k` and `similarity_threshold` narrow those of the configuration.
            own: whether an item belongs to what the node may recall.
        """
        rules, config, asked = self._rules, self._rules.config, incoming_message(query)
        where = query.where
        if config.across_sessions:
            where = replace(where, scope=replace(where.scope, session=None))
        count = self._store.count(where)
        if not rules.trigger(Situation(k=query.limit, last=asked, count=count, memory_k=0, shown=0)):
            return SearchReport()
        text = rules.query_builder([*self._earlier(query, own), asked])
        if not text.strip():
            return SearchReport()
        limit = min(query.limit, config.similarity_top_k)
        wanted = replace(
            query,
            text=text,
            limit=limit if rules.ranker is None else max(limit, rules.candidates),
            similarity_threshold=max(query.similarity_threshold, config.similarity_threshold),
            where=where,
            embedding=query.embedding if text == query.text else self._embedding_of(text),
        )
        found = self._ranked(text, self._store.related(wanted, lambda item: own(item) and self._is_important(item)))
        return replace(found, hits=found.hits[:limit])

    def _earlier(self, query: MemoryQuery, own: Callable[[MemoryItem], bool]) -> list[Message]:
        """Return the newest messages before the query that the query builder reads, oldest first."""
        if not self._rules.earlier_messages:
            return []
        items = self._store.recent(self._rules.earlier_messages, query.where)
        return [item_to_message(item) for item in reversed(items) if own(item)]

    def _ranked(self, text: str, report: SearchReport) -> SearchReport:
        if self._rules.ranker is None:
            return report
        try:
            return replace(report, hits=tuple(self._rules.ranker.rank(text, report.hits)))
        except DevmemError as error:
            _LOG.exception("memory store %r: the hits keep the order of the search", self._store.name)
            return replace(report, failure=str(error))

    def _is_important(self, item: MemoryItem) -> bool:
        least = self._rules.config.min_importance
        return least <= 0 or self._rules.importance(_rated(item)) >= least


def _rated(item: MemoryItem) -> Message:
    """Return the message of an item, with the importance that the writer of an exchange gave it."""
    message, importance = item_to_message(item), item.metadata.get("importance")
    return message if holds_message(item) or importance is None else message.with_metadata(importance=importance)


def incoming_message(query: MemoryQuery) -> Message:
    """Return the query as the message that the node got: without a frame the user sent it.

    The message of another node has its name as speaker and cause, so that only a team leader's is a requirement.
    """
    sender, role = last_sender(query.snapshot.text) if query.snapshot is not None else ("", "")
    if role in ("", Role.USER):
        return UserMessage(query.text, source=sender)
    return UserMessage(query.text, source=sender, cause_by=sender or role)


_QUERIES_KEPT: Final = 128


class RoleZeroMemory(OutboxMemory):
    """Keeps whole conversations; `role` returns one role's memory, with its window and what it recalls.

    A write that the collection cannot take waits in the outbox, in order, and is delivered later, once.
    """

    config_model: ClassVar[type[ConfigModel]] = RoleZeroConfig
    summary: ClassVar[str] = (
        "A role's messages: the newest as they are, related older ones recalled (MetaGPT's RoleZero)"
    )

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
            ranker=ranker or (ChatRanker(config.llm_ranker, setup.open_chat) if config.llm_ranker else None),
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
        room = query.limit - len(related.hits)
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
