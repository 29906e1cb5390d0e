"""One role's memory for one user and session: its window, and the older messages that it recalls."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from devmem import DevmemError, Filter, Hit, MemoryItem, Scope, WriteOutcome
from devmem.errors import RerankerError
from devmem.messages import Message, Role, action_names, item_to_message, message_to_item, readable_text
from devmem.messages.short_term import check_count
from devmem.stores import MemoryQuery, as_async
from devmem.text import shorten
from devmem.workflow import StoreFailure

if TYPE_CHECKING:
    from devmem_stores.role_zero.store import RoleZeroMemory


def item_of(message: Message, scope: Scope, *, stored_at: float, limit: int) -> MemoryItem:
    """Return the item of a message in one memory.

    Args:
        message: the message to keep.
        scope: owner of the memory.
        stored_at: seconds since the epoch.
        limit: maximum number of characters of the summary.

    Raises:
        MessageError: the message has no JSON form.
    """
    item_id = item_id_of(message.id, scope)
    text = readable_text(message)
    summary = shorten(f"{message.source}: {text}" if message.source and text else text, limit)
    item = message_to_item(message, item_id=item_id, scope=scope, summary=summary, stored_at=stored_at, as_input=False)
    return replace(
        item,
        metadata={"role": message.role.value, **item.metadata},
        # The same message is the same item, whatever was changed in it since.
        content_hash=sha256(item_id.encode()).hexdigest(),
    )


def item_id_of(message_id: str, scope: Scope) -> str:
    """Return the id of a message's item in one memory: another role may have got the same message."""
    owner = json.dumps([scope.agent, scope.user, scope.session])
    return f"{message_id}@{sha256(owner.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMessages:
    """Result of a recall: a role's newest messages, and older ones that are related."""

    recent: tuple[Message, ...]
    """The newest messages, in the order in which they came."""
    related: tuple[Message, ...] = ()
    """Older messages, none of which is in `recent`, the best first."""
    hits: tuple[Hit, ...] = ()
    """Hits of the search, in the order of `related`."""
    query: str = ""
    """Text that was searched for; empty when nothing was."""
    failures: tuple[StoreFailure, ...] = ()
    """Failures of the search; the newest messages are there all the same."""

    @property
    def messages(self) -> list[Message]:
        """The related messages by the time at which they were made, then the newest in the order of their arrival."""
        return [*sorted(self.related, key=lambda message: message.created_at), *self.recent]


_LOG: Final = logging.getLogger(__name__)


def _said(item: MemoryItem) -> str:
    return " ".join(item.content_summary.casefold().split())


class RoleMessages:
    """Messages in the order in which they came, each once; safe to use from several threads.

    It holds nothing itself: two of them, also in two processes, show the same.
    """

    def __init__(self, store: RoleZeroMemory, scope: Scope) -> None:
        """Look at the messages of one scope; `RoleZeroMemory.role` makes it."""
        self._store, self.scope = store, scope
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
        now, limit = self._store.setup.clock(), self._store.config.max_content_length
        items = [item_of(message, self.scope, stored_at=now, limit=limit) for message in messages]
        return self._store.add(items)

    def get(self, k: int = 0) -> list[Message]:
        """Return the `k` newest messages (0: the window), and related older ones when the trigger says so, by time.

        Raises:
            MessageError: `k` is negative.
            CollectionError: the messages cannot be read. A failed search is logged, and reported by `recall`.
        """
        return self.recall(k).messages

    def recall(self, k: int = 0) -> RecalledMessages:
        """Return what `get` does with hits, query and failures; raises as `get`."""
        check_count(k)
        store, memory_k = self._store, self._store.config.memory_k
        recent = self._newest(k or memory_k)
        messages = tuple(item_to_message(item) for item in recent)
        last = messages[-1] if messages else None
        is_wanted = store.searches_related(last, self.count(), k=k, window=memory_k, shown=k or memory_k)
        query = store.query_text(messages) if is_wanted else ""
        if not query.strip():
            return RecalledMessages(recent=messages)
        hits, failures = self._related(query, recent)
        related = tuple(item_to_message(hit.item) for hit in hits)
        return RecalledMessages(
            recent=messages, related=related, hits=tuple(hits), query=query, failures=tuple(failures)
        )

    def _related(self, query: str, recent: Sequence[MemoryItem]) -> tuple[list[Hit], list[StoreFailure]]:
        """Search for older messages that do not repeat the recent ones; failures are returned, not raised."""
        store, config = self._store, self._store.config
        scope = replace(self.scope, session=None) if config.across_sessions else self.scope
        asked = MemoryQuery(
            text=query,
            limit=store.candidates,
            similarity_threshold=config.similarity_threshold,
            where=Filter(scope=scope),
            embedding=store.embeddings.of(query),
        )
        # The same words twice are recalled once; asked again about the same item, the answer is the same.
        shown, said_by = {item.id for item in recent}, {_said(item): "" for item in recent}

        def is_fresh(item: MemoryItem) -> bool:
            said = _said(item)
            if not said or item.id in shown or said_by.setdefault(said, item.id) != item.id:
                return False
            return store.is_important(item)

        hits: list[Hit] = []
        failures: list[StoreFailure] = []
        try:
            found = store.related(asked, is_fresh, len(recent))
            hits = list(found.hits)
            if found.failure:
                # It is in the log already.
                error = RerankerError(found.failure)
                failures.append(StoreFailure(store=store.name, operation="rerank what was found", error=error))
            hits = store.ranker.rank(query, hits) if store.ranker is not None else hits
        except DevmemError as error:
            failures.append(self._failed("rank what was found" if hits else "retrieve", error))
        failures += [self._failed("embed the query", error) for error in asked.embedding.failures.values()]
        return hits[: config.similarity_top_k], failures

    def _failed(self, operation: str, error: Exception) -> StoreFailure:
        failure = StoreFailure(store=self._store.name, operation=operation, error=error)
        _LOG.error("%s", failure, exc_info=error)
        return failure

    def window(self) -> list[Message]:
        """Return the messages of the short-term window, the `memory_k` newest, oldest first."""
        return [item_to_message(item) for item in self._newest(self._store.config.memory_k)]

    def long_term(self) -> Iterator[Message]:
        """Return the messages that have left the window, oldest first."""
        recent = {item.id for item in self._newest(self._store.config.memory_k)}
        return (item_to_message(item) for item in self._store.scan(self._where) if item.id not in recent)

    def history(self) -> Iterator[Message]:
        """Return every message, oldest first."""
        return (item_to_message(item) for item in self._store.scan(self._where))

    def _newest(self, limit: int) -> list[MemoryItem]:
        return self._store.recent(limit, self._where)[::-1]

    def last(self) -> Message | None:
        """Return the message that was added last; None when there is none."""
        return next(map(item_to_message, self._newest(1)), None)

    def count(self) -> int:
        """Count the messages, those of the window and the older ones."""
        return self._store.count(self._where)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        """Return True: an empty memory is not a missing one."""
        return True

    def __contains__(self, message: object) -> bool:
        """Whether a message, or the message of an id, is known."""
        message_id = message.id if isinstance(message, Message) else message
        return isinstance(message_id, str) and bool(self._store.get([item_id_of(message_id, self.scope)]))

    def get_by_id(self, message_id: str) -> Message | None:
        """Return the message of an id; None when it is not known."""
        return next(map(item_to_message, self._store.get([item_id_of(message_id, self.scope)])), None)

    def get_by_role(self, role: Role | str) -> list[Message]:
        """Return the messages of a role as chat models name it, oldest first."""
        return [message for message in self.history() if message.role == role]

    def get_by_action(self, action: object) -> list[Message]:
        """Return the messages that an action (`action_name`) caused, oldest first."""
        return self.get_by_actions([action])

    def get_by_actions(self, actions: object) -> list[Message]:
        """Return the messages that any of the actions caused, oldest first; a string is one action."""
        names = set(action_names(actions))
        return [message for message in self.history() if message.cause_by in names]

    def get_by_content(self, text: str) -> list[Message]:
        """Return the messages whose content holds a text, verbatim, oldest first."""
        return [message for message in self.history() if text in message.content]

    def try_remember(self, keyword: str) -> list[Message]:
        """Return `get_by_content(keyword)`: MetaGPT's other name for it."""
        return self.get_by_content(keyword)

    def find_news(self, observed: Iterable[Message], k: int = 0, *, within: int = 0) -> list[Message]:
        """Return those observed messages that are not known, each once and in order.

        Args:
            observed: incoming messages.
            k: maximum number of messages returned, the last ones; 0 returns all.
            within: number of newest messages that count as known, what MetaGPT's `Memory` calls `k`; 0 means all.

        Raises:
            MessageError: a number is negative.
        """
        check_count(k)
        check_count(within)
        unique = {item_id_of(message.id, self.scope): message for message in observed}
        known = {item.id for item in (self._newest(within) if within else self._store.get(list(unique)))}
        news = [message for item_id, message in unique.items() if item_id not in known]
        return news[-k:] if k else news

    def delete(self, message: Message | str) -> bool:
        """Forget a message, or the message of an id, wherever it is; return whether it was known."""
        message_id = message if isinstance(message, str) else message.id
        return self._store.delete(ids=[item_id_of(message_id, self.scope)]) > 0

    def delete_newest(self) -> Message | None:
        """Forget and return the message that was added last; None when there is none."""
        while found := self._newest(1):
            # Another thread may have taken it: then it is theirs, and the next one is ours.
            if self._store.delete(ids=[found[0].id]):
                return item_to_message(found[0])
        return None

    def clear(self) -> int:
        """Forget everything in this memory; return the number of messages."""
        return self._store.delete(where=self._where)

    aadd = as_async(add)

    async def aadd_batch(self, messages: Iterable[Message]) -> list[WriteOutcome]:
        """Do `add_batch` without blocking the event loop."""
        return await asyncio.to_thread(self.add_batch, list(messages))

    aget = as_async(get)
    arecall = as_async(recall)
    adelete_newest = as_async(delete_newest)
