"""The `brain` store: conversations whose older turns become summaries, while every message stays findable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from devmem import Filter, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.collections import Collection, Unique, Unreached, file_of, states_of
from devmem.errors import NoVersionsError
from devmem.llm import Summarizer, TextModel, split_texts
from devmem.stores import CollectionMemory, ConfigModel, FileReport, MemoryBase, MemoryQuery, SearchReport, StoreSetup
from devmem_stores.brain import metagpt_helpers
from devmem_stores.brain.archive import entries_of_exchange, item_of_exchange
from devmem_stores.brain.brain import Brain
from devmem_stores.brain.compression import Compressor
from devmem_stores.brain.config import BrainConfig
from devmem_stores.brain.database_states import StatesInDatabase
from devmem_stores.brain.deletion import emptied, without
from devmem_stores.brain.errors import BrainCacheError
from devmem_stores.brain.examination import examine_states, has_states
from devmem_stores.brain.keys import ChatKey
from devmem_stores.brain.llm_tasks import LlmTasks
from devmem_stores.brain.local_states import Deletion, LocalStates, StatesInFile, StatesInProcess
from devmem_stores.brain.merge import merge
from devmem_stores.brain.recall import composed, latest_items, summary_item
from devmem_stores.brain.redis_cache import RedisCache
from devmem_stores.brain.services import Services
from devmem_stores.brain.state import BrainState
from devmem_stores.brain.state_store import StateStore

_LOG: Final = logging.getLogger(__name__)


class BrainMemory(CollectionMemory):
    """Keeps every message as an item, and of each conversation a state: its latest messages and the summaries before.

    Nodes use it like any store; `brain` gives one conversation to work with directly.
    """

    config_model: ClassVar[type[ConfigModel]] = BrainConfig
    summary: ClassVar[str] = "Conversations: older turns become summaries, every message stays findable; Redis, file"
    unique: ClassVar[Unique] = Unique.ID

    split_texts = staticmethod(split_texts)
    extract_info = staticmethod(metagpt_helpers.extract_info)
    to_int = staticmethod(metagpt_helpers.to_int)
    to_metagpt_history_format = staticmethod(metagpt_helpers.to_metagpt_history_format)

    def __init__(self, setup: StoreSetup) -> None:
        """Prepare the store; nothing is opened or asked yet.

        Raises:
            MissingExtraError: Redis is configured, and its package is not installed.
        """
        super().__init__(setup)
        self.config = config = setup.config_as(BrainConfig)
        redis = RedisCache(config.redis, clock=setup.monotonic) if config.redis else None
        prefix = (config.redis.prefix if config.redis else None) or self.name
        self._local = self._local_states()
        self._states = StateStore(self.name, redis, self._local, prefix=prefix)
        llm = config.llm_model
        model = TextModel(lambda: setup.open_chat(llm), llm.params) if llm else None
        summarizer = Summarizer(
            model, window=config.window, language=config.language, instruction=config.summary_prompt or ""
        )
        self._services = Services(
            store=self.name,
            config=config,
            archive=self,
            states=self._states,
            local=self._local,
            compressor=Compressor(config, self._states, summarizer, setup.monotonic),
            summarizer=summarizer,
            llm_tasks=LlmTasks(model, config.language),
            clock=setup.clock,
        )

    def examine(self) -> Iterator[FileReport]:
        """Report on the collection's file and on that of the states."""
        yield from super().examine()
        if isinstance(self._local, StatesInFile) and Path(self._local.place).exists():
            yield examine_states(Path(self._local.place))

    @classmethod
    def examine_file(cls, path: Path) -> FileReport | None:
        """Report on a file of states; None for any other file."""
        return examine_states(path) if has_states(path) else None

    def _local_states(self) -> LocalStates:
        place = self.setup.location(self.config.memory_path)
        if place is None:
            return StatesInProcess()
        file = file_of(place)
        if file is None:
            return StatesInDatabase(lambda: states_of(self.collection))
        return StatesInFile(Path(f"{file}.brain"), durability=self.config.durability)

    def brain(self, user: str = "", chat: str = "") -> Brain:
        """Return one conversation of one user; both may be empty where there is only one."""
        return Brain(ChatKey(user=user, chat=chat), self._services)

    def brain_of(self, scope: Scope) -> Brain:
        """Return the conversation that a scope names: its user, and its conversation or else its session."""
        return Brain(ChatKey.of(scope), self._services)

    def show(self, view: Collection) -> None:  # noqa: ARG002 - whatever it shows
        """Refuse: the states of conversations, which are beside the items, have no versions."""
        raise NoVersionsError(self.name, "the states of its conversations are kept beside its items, without versions")

    def load(self) -> None:
        """Open the items, and finish what an earlier process left unfinished; Redis may be down."""
        super().load()
        try:
            self._finish_deletions()
            self._services.catch_up()
        except BrainCacheError as error:
            _LOG.warning("memory store %r: what an earlier process left unfinished stays so: %s", self.name, error)
        self._states.flush()

    def save(self) -> None:
        """Embed what waits for its embedding, and write waiting states to Redis."""
        super().save()
        self._states.flush()

    def add_item(self, item: MemoryItem) -> WriteOutcome:
        """Store one item without adding it to a conversation."""
        return self.store_items([item])[0]

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Make the item of an exchange."""
        return item_of_exchange(payload, length=self.config.max_content_length, now=self.setup.clock())

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said, and add it to its conversation."""
        item = self.compose(payload)
        if isinstance(item, WriteOutcome):
            return item
        (item,) = self.stamped([item])
        outcome = self.add_item(item)
        return self.brain_of(payload.scope).remember(entries_of_exchange(item, payload), outcome)

    def rank(self, query: MemoryQuery) -> SearchReport:
        """Put the conversation's summary before what is related, and the latest turns after it."""
        related = self.search_collection(query)
        where = query.where
        if where != Filter(scope=where.scope, or_unbound=where.or_unbound, unbound=where.unbound):
            # Neither a summary nor a turn of a conversation is known to fit a filter by time, source or metadata.
            return related
        key = self._chat_of(where)
        if key is None:
            return related
        state = self.brain(key.user, key.chat).snapshot()
        # An item keeps two messages at most.
        entries = state.entries[-2 * query.top_k - self.config.keep_messages :]
        latest = latest_items(entries, self.get([entry.item_id for entry in entries]), key)
        hits = composed(
            query.top_k,
            summary=summary_item(state, key, self.name, max_tokens=self.config.max_tokens // 2),
            related=related.hits,
            latest=self._similar(latest, query),
            turns=self.config.keep_messages,
        )
        return replace(related, hits=tuple(hits))

    def _chat_of(self, where: Filter) -> ChatKey | None:
        """Return the conversation that a query is about: that of the newest item that it may see.

        None when the filter admits only a part of a conversation, such as the messages of one agent: the summary and
        the latest turns are of all.
        """
        own = self.recent(1, replace(where, or_unbound=False)) or self.recent(1, where)
        scope = own[0].scope if own else where.scope
        part = where.scope
        if part.agent or part.trace or part.run or (part.session and scope.conversation):
            return None
        return ChatKey.of(scope)

    def _similar(self, items: list[MemoryItem], query: MemoryQuery) -> list[MemoryItem]:
        """Leave out items that are known to be less similar than the query wants."""
        vector = query.embedding.by(self.embedder) if self.embedder and query.similarity_threshold > -1 else None
        if vector is None:
            return items
        least = query.similarity_threshold
        return [item for item in items if item.embedding is None or float(item.embedding @ vector) >= least]

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Forget the items stored last, and the summaries made of them; return them, newest first."""
        found = self.recent(count, where)
        with self._deleting(found):
            # Of several callers one deletes an item.
            return [item for item in found if super(BrainMemory, self)._delete([item.id], None)]

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Forget the named or the matching items, and the summaries made of them."""
        found = self.get(ids) if ids is not None else list(self.collection.scan(where))
        with self._deleting(found):
            return super()._delete(ids, where)

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the newest items, and those that are too old, and the summaries made of them."""
        found = list(self.collection.scan())
        old = [item for item in found if stored_before is not None and item.created_at < stored_before]
        first = found[: max(len(found) - keep, 0)] if keep is not None else []
        with self._deleting([*{item.id: item for item in (*old, *first)}.values()]):
            return super().trim(keep=keep, stored_before=stored_before)

    def clear(self) -> int:
        """Forget everything."""
        known = self._states.known()
        with self._deleting(list(self.collection.scan()), [Deletion(str(key), "") for key in known]):
            return super().clear()

    def scrub(self) -> list[Unreached]:
        """Remove the states of conversations that are gone, and the bytes of what states were before."""
        try:
            self._states.discard_empty()
            left = self._local.scrub()
        except BrainCacheError as error:
            return [Unreached(place=error.place, reason=str(error), failed=True)]
        if self._states.redis_place is None:
            return left
        reason = "what Redis writes to its disk has earlier states until it is rewritten"
        return [*left, Unreached(place=self._states.redis_place, reason=reason)]

    def files(self) -> list[Path]:
        """Return the collection's files and those of the states."""
        states = self._local.place if isinstance(self._local, StatesInFile) else None
        beside = [Path(f"{states}{suffix}") for suffix in ("", "-wal", "-shm")] if states is not None else []
        return [*super().files(), *beside]

    def compress(self) -> int:
        """Summarize all but the latest messages of every conversation; return the number of messages.

        Raises:
            ChatModelError: the language model gave no answer; what is not summarized stays in the history.
        """
        return sum(self.brain(key.user, key.chat).compress() for key in self._states.known())

    def take_states(self, source: MemoryBase) -> int:
        """Take over the conversations of a store whose messages were copied into this one, with their summaries."""
        if not isinstance(source, BrainMemory):
            return 0
        keys = source.conversations()
        for key in keys:
            state = source.brain(key.user, key.chat).snapshot()
            self._states.update(key, partial(merge, state))
        return len(keys)

    def conversations(self) -> list[ChatKey]:
        """Return the conversations that have a state."""
        return self._states.known()

    @contextmanager
    def _deleting(self, items: Sequence[MemoryItem], chats: Sequence[Deletion] = ()) -> Iterator[None]:
        """Remove items from their conversations after they were deleted; a kill in between is made up for later.

        The deletion is recorded before it begins, so that nothing that was to be forgotten stays in a summary.
        """
        deletions = [*(Deletion(str(ChatKey.of(item.scope)), item.id) for item in items), *chats]
        recorded = self._recorded(deletions)
        try:
            yield
        finally:
            # Where deleting failed, only what is gone leaves its conversation.
            self._forget(deletions)
            if recorded:
                self._local.finish(deletions)

    def _recorded(self, deletions: Sequence[Deletion]) -> bool:
        """Record deletions; return False where the file of the states cannot be used."""
        try:
            self._finish_deletions()
            self._local.record(deletions)
        except BrainCacheError as error:
            _LOG.warning("memory store %r: a kill would leave the deletion unfinished: %s", self.name, error)
            return False
        return True

    def _finish_deletions(self) -> None:
        """Finish the deletions that an earlier process, or an earlier call that failed, began."""
        if recorded := self._local.recorded():
            super()._delete([deletion.item for deletion in recorded if deletion.item], None)
            self._forget(recorded)
            self._local.finish(recorded)

    def _forget(self, deletions: Iterable[Deletion]) -> None:
        """Remove deleted items from their conversations; those that are still there stay."""
        by_key: dict[str, set[str]] = {}
        for deletion in deletions:
            by_key.setdefault(deletion.key, set()).add(deletion.item)
        for name, ids in by_key.items():
            key = ChatKey.parse(name)
            there = {item.id for item in self.get(sorted(ids))}
            # Meanwhile others may have said something in a conversation that was cleared.
            whole = "" in ids and not self.collection.count()
            if gone := ids - there - {""}:
                self.brain(key.user, key.chat).forget(self._without(gone))
            if whole:
                self.brain(key.user, key.chat).forget(emptied)

    def _without(self, gone: set[str]) -> Callable[[BrainState], BrainState]:
        return lambda state: without(state, gone, self._services.entries)

    def close(self) -> None:
        """Release the items, the states and the connections."""
        super().close()
        self._states.close()
