"""One role's memory for one user and session: its window, and the older messages that it recalls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from devmem import DevmemError, Filter, Hit, MemoryItem, Scope, WriteOutcome
from devmem.errors import MessageError, RerankerError
from devmem.manager import StoreFailure
from devmem.messages import Message, Role, action_name
from devmem.stores import MemoryQuery, QueryEmbedding
from devmem_stores.role_zero.messages import item_id_of, item_of, message_of
from devmem_stores.role_zero.recall import Fresh, Recall
from devmem_stores.role_zero.rules import Rules, Situation
from devmem_stores.role_zero.window import OutboxMemory

_LOG: Final = logging.getLogger(__name__)

EmbeddingOf: TypeAlias = Callable[[str], QueryEmbedding]


class RoleMemory:
    """Messages in the order in which they came, each once; safe to use from several threads.

    It holds nothing itself: two of them, also in two processes, show the same.
    """

    def __init__(self, store: OutboxMemory, rules: Rules, embedding_of: EmbeddingOf, scope: Scope) -> None:
        """Look at the messages of one scope; `RoleZeroMemory.role` makes it."""
        self._store, self._rules, self._embedding_of, self.scope = store, rules, embedding_of, scope
        self._where = Filter(scope=scope)

    def add(self, message: Message) -> WriteOutcome:
        """Append a message; it is durable when this returns, and one that is there already is not stored again.

        Raises:
            MessageError: the message cannot be stored.
            CollectionError: it can be kept nowhere.
        """
        return self.add_batch([message])[0]

    def add_batch(self, messages: Iterable[Message]) -> list[WriteOutcome]:
        """Append messages, as when a history is restored: embedded together, some hundreds in one transaction.

        Raises:
            MessageError: one cannot be stored; none was.
            CollectionError: they can be kept nowhere.
        """
        now, limit = self._store.setup.clock(), self._rules.config.max_content_length
        items = [item_of(message, self.scope, stored_at=now, limit=limit) for message in messages]
        return self._store.add(items)

    def get(self, k: int = 0) -> list[Message]:
        """Give the `k` newest messages (0: the window), and related older ones when the trigger says so, by time.

        Raises:
            MessageError: `k` is negative.
            CollectionError: the messages cannot be read. A search that fails is logged; `recall` tells it.
        """
        return self.recall(k).messages

    def recall(self, k: int = 0) -> Recall:
        """Do `get`, and tell what is recent, what is related and why, and what failed; raises as `get`."""
        if k < 0:
            raise MessageError(f"how many messages cannot be negative: {k}")
        rules, memory_k = self._rules, self._rules.config.memory_k
        recent = self._newest(k or memory_k)
        messages = tuple(message_of(item) for item in recent)
        last = messages[-1] if messages else None
        situation = Situation(k=k, last=last, count=self.count(), memory_k=memory_k)
        query = rules.query_builder(messages) if rules.trigger(situation) else ""
        if not query.strip():
            return Recall(recent=messages)
        hits, failures = self._related(query, recent)
        related = tuple(message_of(hit.item) for hit in hits)
        return Recall(recent=messages, related=related, hits=tuple(hits), query=query, failures=tuple(failures))

    def _related(self, query: str, recent: Sequence[MemoryItem]) -> tuple[list[Hit], list[StoreFailure]]:
        """Search for older messages that say something else than the recent ones; what fails is told, not raised."""
        config, ranker = self._rules.config, self._rules.ranker
        asked = MemoryQuery(
            text=query,
            top_k=self._rules.candidates,
            similarity_threshold=config.similarity_threshold,
            where=self._related_where(),
            embedding=self._embedding_of(query),
        )
        fresh = Fresh(recent, self._rules.importance, config.min_importance)
        hits: list[Hit] = []
        failures: list[StoreFailure] = []
        try:
            found = self._store.related(asked, fresh, len(recent))
            hits = list(found.hits)
            if found.failure:
                # It is in the log already.
                error = RerankerError(found.failure)
                failures.append(StoreFailure(store=self._store.name, operation="rerank what was found", error=error))
            hits = ranker.rank(query, hits) if ranker is not None else hits
        except DevmemError as error:
            failures.append(self._failed("rank what was found" if hits else "retrieve", error))
        failures += [self._failed("embed the query", error) for error in [*asked.embedding.failures.values()]]
        return hits[: config.similarity_top_k], failures

    def _related_where(self) -> Filter:
        return Filter(scope=replace(self.scope, session=None) if self._rules.config.across_sessions else self.scope)

    def _failed(self, operation: str, error: Exception) -> StoreFailure:
        failure = StoreFailure(store=self._store.name, operation=operation, error=error)
        _LOG.error("%s", failure, exc_info=error)
        return failure

    def window(self) -> list[Message]:
        """Give the messages of the short-term window, the `memory_k` newest, oldest first."""
        return [message_of(item) for item in self._newest(self._rules.config.memory_k)]

    def long_term(self) -> Iterator[Message]:
        """Give the messages that have left the window, oldest first."""
        recent = {item.id for item in self._newest(self._rules.config.memory_k)}
        return (message_of(item) for item in self._store.scan(self._where) if item.id not in recent)

    def history(self) -> Iterator[Message]:
        """Give every message, oldest first."""
        return (message_of(item) for item in self._store.scan(self._where))

    def _newest(self, limit: int) -> list[MemoryItem]:
        return self._store.recent(limit, self._where)[::-1]

    def last(self) -> Message | None:
        """Give the message that was added last; None when there is none."""
        found = self._newest(1)
        return message_of(found[0]) if found else None

    def count(self) -> int:
        """Count the messages, those of the window and the older ones."""
        return self._store.count_memories(self._where)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        """A memory is one even when it is empty."""
        return True

    def __contains__(self, message: object) -> bool:
        """Say whether a message, or the message of an id, is known."""
        message_id = message.id if isinstance(message, Message) else message
        return isinstance(message_id, str) and bool(self._store.get([item_id_of(message_id, self.scope)]))

    def get_by_id(self, message_id: str) -> Message | None:
        """Give the message of an id; None when it is not known."""
        found = self._store.get([item_id_of(message_id, self.scope)])
        return message_of(found[0]) if found else None

    def get_by_role(self, role: Role | str) -> list[Message]:
        """Give the messages of a role as chat models name it, oldest first."""
        return [message for message in self.history() if message.role == role]

    def get_by_action(self, action: object) -> list[Message]:
        """Give the messages that an action (`action_name`) caused, oldest first."""
        return self.get_by_actions([action])

    def get_by_actions(self, actions: Iterable[object]) -> list[Message]:
        """Give the messages that any of the actions caused, oldest first."""
        names = {action_name(action) for action in actions}
        return [message for message in self.history() if message.cause_by in names]

    def get_by_content(self, text: str) -> list[Message]:
        """Give the messages whose content holds a text, letter by letter, oldest first."""
        return [message for message in self.history() if text in message.content]

    def try_remember(self, keyword: str) -> list[Message]:
        """Do `get_by_content`, under MetaGPT's other name."""
        return self.get_by_content(keyword)

    def find_news(self, observed: Iterable[Message], k: int = 0) -> list[Message]:
        """Give those observed messages that are not known, each once and in order; the last `k`, 0 gives all."""
        unique = list({message.id: message for message in observed}.values())
        known = {item.id for item in self._store.get([item_id_of(message.id, self.scope) for message in unique])}
        news = [message for message in unique if item_id_of(message.id, self.scope) not in known]
        return news[-k:] if k else news

    def delete(self, message: Message | str) -> bool:
        """Forget a message, or the message of an id, wherever it is; says whether it was known."""
        message_id = message if isinstance(message, str) else message.id
        return self._store.delete(ids=[item_id_of(message_id, self.scope)]) > 0

    def delete_newest(self) -> Message | None:
        """Forget the message that was added last and give it; None when there is none."""
        while found := self._newest(1):
            # Another thread may have taken it: then it is theirs, and the next one is ours.
            if self._store.delete(ids=[found[0].id]):
                return message_of(found[0])
        return None

    def clear(self) -> int:
        """Forget everything in this memory; gives how many messages there were."""
        return self._store.delete(where=self._where)

    async def aadd(self, message: Message) -> WriteOutcome:
        """Do `add` without blocking the event loop."""
        return await asyncio.to_thread(self.add, message)

    async def aadd_batch(self, messages: Iterable[Message]) -> list[WriteOutcome]:
        """Do `add_batch` without blocking the event loop."""
        return await asyncio.to_thread(self.add_batch, list(messages))

    async def aget(self, k: int = 0) -> list[Message]:
        """Do `get` without blocking the event loop."""
        return await asyncio.to_thread(self.get, k)

    async def arecall(self, k: int = 0) -> Recall:
        """Do `recall` without blocking the event loop."""
        return await asyncio.to_thread(self.recall, k)

    async def adelete_newest(self) -> Message | None:
        """Do `delete_newest` without blocking the event loop."""
        return await asyncio.to_thread(self.delete_newest)
