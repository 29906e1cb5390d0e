"""The `role_zero` store: every message once, permanently; the newest are a role's window, the others are recalled.

A message is one item. Whether it is in the window or in long-term memory is its place in the order in which messages
came, and so nothing is moved between two places: no kill can lose a message on the way or leave it in both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Final

from devmem import DevmemError, Hit, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.messages import Message, Role, UserMessage, item_to_message
from devmem.stores import (
    AGENT_KEY,
    CollectionMemory,
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


def is_own(item: MemoryItem, query: MemoryQuery) -> bool:
    """Whether the asking agent wrote an item, by its name or else its role, or no one is known to have written it."""
    names = {query.caller.agent, query.caller.node, query.agent_role} - {""}
    writer = item.scope.agent or item.metadata.get(AGENT_KEY) or item.metadata.get("agent_role")
    return not names or not writer or writer in names


def related_hits(
    search: Callable[[int], Sequence[Hit]], wanted: int, admit: Callable[[MemoryItem], bool], spare: int = 0
) -> list[Hit]:
    """Return the best hits whose item is admitted.

    Args:
        search: returns at most that many hits, best first.
        wanted: maximum number of hits.
        admit: whether an item may be among them.
        spare: number of items that are likely to be refused, to save a second search.
    """
    limit = wanted + spare
    while True:
        hits = search(limit)
        found = [hit for hit in hits if admit(hit.item)]
        if len(found) >= wanted or len(hits) < limit:
            return found[:wanted]
        limit *= 4


_LOG: Final = logging.getLogger(__name__)


def _rated(item: MemoryItem) -> Message:
    """Return the message of an item, with the importance that the writer of an exchange gave it."""
    message, importance = item_to_message(item), item.metadata.get("importance")
    return message if item.is_message or importance is None else message.with_metadata(importance=importance)


def incoming_message(query: MemoryQuery) -> Message:
    """Return the query as the message that the node got: without a frame the user sent it.

    The message of another node has its name as speaker and cause, so that only a team leader's is a requirement.
    """
    sender, role = last_sender(query.snapshot.text) if query.snapshot is not None else ("", "")
    if role in ("", Role.USER):
        return UserMessage(query.text, source=sender)
    return UserMessage(query.text, source=sender, cause_by=sender or role)


_QUERIES_KEPT: Final = 128


class RoleZeroMemory(CollectionMemory):
    """Keeps whole conversations; `role` returns one role's memory, with its window and what it recalls."""

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
        self.config = config = setup.config_as(RoleZeroConfig)
        self._rules = Rules(
            config=config,
            trigger=trigger or configured_trigger(config),
            query_builder=query_builder or configured_query(config),
            ranker=ranker or (ChatRanker(config.llm_ranker, setup.open_chat) if config.llm_ranker else None),
            importance=importance,
            earlier_messages=config.memory_k if query_builder else _earlier_messages(config),
        )
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

        related = self._related(query, own)
        room = query.limit - len(related.hits)
        if room > 0 and query.similarity_threshold <= -1:
            there = {hit.item.id for hit in related.hits}
            window = self.recent(self.config.memory_k, query.where)
            newest = [item for item in window if own(item) and item.id not in there]
            filling = (Hit(item=item, score=0.0, recency=1 / (1 + age)) for age, item in enumerate(newest[:room]))
            return replace(related, hits=(*related.hits, *filling))
        return related

    def related(self, query: MemoryQuery, admit: Callable[[MemoryItem], bool], spare: int = 0) -> SearchReport:
        """Return the best hits whose item is admitted, at most `query.limit`, also those that say the same.

        Args:
            query: the query.
            admit: whether an item may be among them.
            spare: number of items that are likely to be refused.
        """
        # A hit that is not admitted must not have taken the place of another.
        ranking = replace(self.ranking, collapse=False)
        # Searching may take several turns, but the reranker reads once.
        found = related_hits(
            lambda limit: self.collection.search(self.search_query(query, limit=limit, ranking=ranking)).hits,
            self.search_depth(query.limit),
            admit,
            spare,
        )
        return self.rerank(query, SearchReport.of(found))

    def _related(self, query: MemoryQuery, own: Callable[[MemoryItem], bool]) -> SearchReport:
        """Return the related messages that a node may recall, best first, when the trigger says so."""
        rules, config, asked = self._rules, self.config, incoming_message(query)
        where = query.where
        if config.across_sessions:
            where = replace(where, scope=replace(where.scope, session=None))
        count = self.count(where)
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
        found = self._ranked(text, self.related(wanted, lambda item: own(item) and self._is_important(item)))
        return replace(found, hits=found.hits[:limit])

    def _earlier(self, query: MemoryQuery, own: Callable[[MemoryItem], bool]) -> list[Message]:
        """Return the newest messages before the query that the query builder reads, oldest first."""
        if not self._rules.earlier_messages:
            return []
        items = self.recent(self._rules.earlier_messages, query.where)
        return [item_to_message(item) for item in reversed(items) if own(item)]

    def _ranked(self, text: str, report: SearchReport) -> SearchReport:
        if self._rules.ranker is None:
            return report
        try:
            return replace(report, hits=tuple(self._rules.ranker.rank(text, report.hits)))
        except DevmemError as error:
            _LOG.exception("memory store %r: the hits keep the order of the search", self.name)
            return replace(report, failure=str(error))

    def _is_important(self, item: MemoryItem) -> bool:
        least = self.config.min_importance
        return least <= 0 or self._rules.importance(_rated(item)) >= least


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
