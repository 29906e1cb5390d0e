"""The `role_zero` store: every message once, permanently; the newest are a role's window, the others are recalled.

A message is one item. Whether it is in the window or in long-term memory is its place in the order in which messages
came, and so nothing is moved between two places: no kill can lose a message on the way or leave it in both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from devmem import DevmemError, Hit, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.messages import Message, Role, UserMessage, item_to_message
from devmem.stores import (
    AGENT_KEY,
    CollectionMemory,
    ConfigModel,
    MemoryQuery,
    QueryEmbeddings,
    SearchReport,
    StoreSetup,
    item_from,
    skipped,
)
from devmem.text import last_sender, shorten, strip_frames
from devmem_stores.role_zero.config import (
    ChatRanker,
    Ranker,
    RankerConfig,
    RoleZeroConfig,
    importance_of,
    is_requirement,
)
from devmem_stores.role_zero.role import RoleMessages


def is_own(item: MemoryItem, query: MemoryQuery) -> bool:
    """Whether the asking agent wrote an item, by its name or else its role, or no one is known to have written it."""
    names = {query.caller.agent, query.caller.node, query.agent_role} - {""}
    writer = item.scope.agent or item.metadata.get(AGENT_KEY) or item.metadata.get("agent_role")
    return not names or not writer or writer in names


_LOG: Final = logging.getLogger(__name__)


def incoming_message(query: MemoryQuery) -> Message:
    """Return the query as the message that the node got: without a frame the user sent it.

    The message of another node has its name as speaker and cause, so that only a team leader's is a requirement.
    """
    sender, role = last_sender(query.snapshot.text) if query.snapshot is not None else ("", "")
    if role in ("", Role.USER):
        return UserMessage(query.text, source=sender)
    return UserMessage(query.text, source=sender, cause_by=sender or role)


class RoleZeroMemory(CollectionMemory):
    """Keeps whole conversations; `role` returns one role's memory, with its window and what it recalls."""

    config_model: ClassVar[type[ConfigModel]] = RoleZeroConfig
    summary: ClassVar[str] = (
        "A role's messages: the newest as they are, related older ones recalled (MetaGPT's RoleZero)"
    )

    def __init__(self, setup: StoreSetup, *, ranker: Ranker | None = None) -> None:
        """Prepare the store; `ranker` orders the candidates, None leaves that to what the configuration names."""
        super().__init__(setup)
        self.config = config = setup.config_as(RoleZeroConfig)
        llm = config.llm_ranker
        self.ranker = ranker or (ChatRanker(llm, setup.open_chat) if llm else None)
        self.candidates = config.similarity_top_k
        """Number of related messages to search for: those that are recalled, or those that a ranker chooses from."""
        if self.ranker is not None:
            self.candidates = max(config.similarity_top_k, (llm or RankerConfig()).candidates)
        self.embeddings = QueryEmbeddings()

    def role(self, name: str, *, user: str = "", session: str = "") -> RoleMessages:
        """Return the memory of one role for one user and session; no other memory's messages are in it."""
        return RoleMessages(self, Scope(agent=name, user=user, session=session))

    def searches_related(self, last: Message | None, count: int, *, k: int, window: int, shown: int) -> bool:
        """Whether related messages are searched for; a subclass may decide by something else.

        Args:
            last: the message that was added last; None when there is none.
            count: number of messages in the memory.
            k: number of newest messages that were asked for; 0 is the window.
            window: number of messages in the window; 0 for a node of a workflow, which is not given the window.
            shown: number of newest messages that are given anyway.
        """
        if self.config.recall == "requirement":
            return k != 0 and count > window and is_requirement(last, self.config.team_leaders)
        return self.config.recall == "always" and count > shown

    def query_text(self, messages: Sequence[Message]) -> str:
        """Return the text to search for, made of the newest messages, oldest first; a blank one finds nothing."""
        if self.config.query == "last_turns":
            said = (message.text().strip() for message in messages[-self.config.query_turns :])
            return "\n".join(filter(None, said))
        return messages[-1].text() if messages else ""

    def importance(self, message: Message) -> float:
        """Rate a message from 0 (not worth recalling) to 1, for `min_importance`."""
        return importance_of(message)

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
        if room <= 0 or query.similarity_threshold > -1:
            return related
        there = {hit.item.id for hit in related.hits}
        window = self.recent(self.config.memory_k, query.where)
        newest = [item for item in window if own(item) and item.id not in there]
        filling = (Hit(item=item, score=0.0, recency=1 / (1 + age)) for age, item in enumerate(newest[:room]))
        return replace(related, hits=(*related.hits, *filling))

    def related(self, query: MemoryQuery, admit: Callable[[MemoryItem], bool], spare: int = 0) -> SearchReport:
        """Return the best hits whose item is admitted, at most `query.limit`, also those that say the same.

        Args:
            query: the query.
            admit: whether an item may be among them.
            spare: number of items that are likely to be refused.
        """
        # A hit that is not admitted must not have taken the place of another.
        ranking = replace(self.ranking, collapse=False)
        wanted = self.search_depth(query.limit)
        limit = wanted + spare
        # Searching may take several turns, but the reranker reads once.
        while True:
            hits = self.collection.search(self.search_query(query, limit=limit, ranking=ranking)).hits
            found = [hit for hit in hits if admit(hit.item)]
            if len(found) >= wanted or len(hits) < limit:
                return self.rerank(query, SearchReport.of(found[:wanted]))
            limit *= 4

    def _related(self, query: MemoryQuery, own: Callable[[MemoryItem], bool]) -> SearchReport:
        """Return the related messages that a node may recall, best first, when the trigger says so."""
        config, asked, where = self.config, incoming_message(query), query.where
        if config.across_sessions:
            where = replace(where, scope=replace(where.scope, session=None))
        if not self.searches_related(asked, self.count(where), k=query.limit, window=0, shown=0):
            return SearchReport()
        earlier = self.recent(config.query_turns - 1, query.where) if config.query == "last_turns" else []
        text = self.query_text([*(item_to_message(item) for item in reversed(earlier) if own(item)), asked])
        if not text.strip():
            return SearchReport()
        limit = min(query.limit, config.similarity_top_k)
        wanted = replace(
            query,
            text=text,
            limit=limit if self.ranker is None else max(limit, self.candidates),
            similarity_threshold=max(query.similarity_threshold, config.similarity_threshold),
            where=where,
            embedding=query.embedding if text == query.text else self.embeddings.of(text),
        )
        found = self.related(wanted, lambda item: own(item) and self.is_important(item))
        if self.ranker is not None:
            try:
                found = replace(found, hits=tuple(self.ranker.rank(text, found.hits)))
            except DevmemError as error:
                _LOG.exception("memory store %r: the hits keep the order of the search", self.name)
                found = replace(found, failure=str(error))
        return replace(found, hits=found.hits[:limit])

    def is_important(self, item: MemoryItem) -> bool:
        """Whether an item is important enough to be recalled."""
        if self.config.min_importance <= 0:
            return True
        message, given = item_to_message(item), item.metadata.get("importance")
        if not item.is_message and given is not None:
            # The writer of an exchange gave it.
            message = message.with_metadata(importance=given)
        return self.importance(message) >= self.config.min_importance


def _exchange(asked: str, answered: str, limit: int) -> str:
    """Put what was asked before what was answered, each whole if both fit, otherwise each within its half."""
    sides = [text for text in (asked, answered) if text]
    if sum(map(len, sides)) + 1 > limit:
        room = (limit - 1) // len(sides)
        spare = sum(max(room - len(text), 0) for text in sides)
        sides = [shorten(text, room + spare) for text in sides]
    return "\n".join(sides)
