"""Recall for a node of a workflow: it is given hits, not the window, so that every stored message counts as older."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from devmem import DevmemError, MemoryItem
from devmem.messages import Message, Role, UserMessage, holds_message, item_to_message
from devmem.stores import MemoryQuery, QueryEmbedding, SearchReport, last_sender
from devmem_stores.role_zero.rules import Rules, Situation
from devmem_stores.role_zero.window import OutboxMemory

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
        count = self._store.count_memories(where)
        if not rules.trigger(Situation(k=query.top_k, last=asked, count=count, memory_k=0, shown=0)):
            return SearchReport()
        text = rules.query_builder([*self._earlier(query, own), asked])
        if not text.strip():
            return SearchReport()
        limit = min(query.top_k, config.similarity_top_k)
        wanted = replace(
            query,
            text=text,
            top_k=limit if rules.ranker is None else max(limit, rules.candidates),
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
