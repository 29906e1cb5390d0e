"""The `brain` store: conversations whose older turns become summaries, while every message stays findable."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from typing import ClassVar, Final

from devmem import Filter, Hit, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.errors import BrainRedisError, DevmemError, Finding, NoVersionsError
from devmem.model.results import Fact
from devmem.models import Summarizer, TextModel
from devmem.storage import Collection, Residue, StateKey, states_of
from devmem.storage.versions import VersionedCollection
from devmem.stores import (
    TRUST,
    CollectionMemory,
    ConfigModel,
    MemoryBase,
    MemoryQuery,
    Provenance,
    SearchReport,
    SourceKind,
    StoreSetup,
    is_pinned,
    unfinished,
    without_erased,
)
from devmem.text import Backoff, estimate_tokens, extract_summary, mostly_unspaced
from devmem_stores.brain.compression import next_step
from devmem_stores.brain.config import BrainConfig, ChatKey
from devmem_stores.brain.conversation import Brain
from devmem_stores.brain.items import belongs_to_conversation, entries_of, is_knowledge, item_of_exchange
from devmem_stores.brain.state import (
    BrainState,
    StoredMessage,
    emptied,
    merge,
    retrusted,
    spoken,
    with_entries,
    with_knowledge,
    without,
)
from devmem_stores.brain.states import STATE, WAITING, ConversationStates, RedisStates

_HEADS: Final = {
    False: "Summary of {count} earlier messages, {start} to {end}:",
    True: "此前{count}条消息的概括({start}至{end}):",
}
_HEARD: Final = 500
"""Number of characters by which the language of a text is detected."""
_LONGEST_PAUSE: Final = 300.0
_STEPS_A_WRITE: Final = 5
"""One step for the messages, and one for each level that it fills; a longer backlog continues with the next write."""
_NOTHING_LEFT: Final = "…"
"""Text of a summary every sentence of which tombstones keep out."""


def summary_item(state: BrainState, key: ChatKey, store: str, *, max_tokens: int) -> MemoryItem | None:
    """Return one item of all summaries, of at most `max_tokens` estimated tokens; None when there are none."""
    if not state.summaries:
        return None
    text, count = _shown(state.historical_summary, max_tokens), sum(summary.messages for summary in state.summaries)
    start, end = min(s.start for s in state.summaries), max(s.end for s in state.summaries)
    head = _HEADS[mostly_unspaced(text[:_HEARD])].format(count=count, start=_day(start), end=_day(end))
    return MemoryItem(
        id=f"{key}:summary:{state.summaries[-1].id}",
        content_summary=f"{head}\n{text}",
        metadata={"from": start, "to": end, "messages": count, "levels": [s.level for s in state.summaries]},
        created_at=end,
        event_time=end,
        expires_at=min((time for s in state.summaries for _, time in s.expiring), default=None),
        scope=key.scope(),
        trust=min([TRUST[SourceKind.SUMMARY], *(s.trust for s in state.summaries)]),
        provenance=Provenance(
            kind=SourceKind.SUMMARY,
            name=store,
            parents=tuple(dict.fromkeys(source for s in state.summaries for source in s.sources)),
        ),
    )


def latest_items(entries: Sequence[StoredMessage], stored: Sequence[MemoryItem], key: ChatKey) -> list[MemoryItem]:
    """Return the items of messages, newest first; items of another machine are rebuilt from the messages."""
    here = {item.id: item for item in stored}
    lines: dict[str, list[str]] = {}
    for entry in entries:
        lines.setdefault(entry.item_id, []).append(spoken(entry.message))
    last = {entry.item_id: entry for entry in entries}
    rebuilt = (
        MemoryItem(
            id=item_id,
            content_summary="\n".join(said),
            created_at=last[item_id].message.created_at,
            expires_at=last[item_id].expires_at,
            scope=key.scope(),
            trust=last[item_id].trust,
        )
        for item_id, said in lines.items()
    )
    return [here.get(item.id, item) for item in rebuilt][::-1]


def composed(
    top_k: int, *, summary: MemoryItem | None, related: Sequence[Hit], latest: Sequence[MemoryItem], turns: int
) -> list[Hit]:
    """Return the hits together, best first, each item once.

    With room for two or more, the summary comes first; of the rest, up to half is for the latest `turns` items. Where
    little is related, more of the latest fill up.
    """
    hits = [Hit(item=summary, score=max([1.0, *(hit.score for hit in related)]))] if summary and top_k > 1 else []
    room = top_k - len(hits)
    own = {item.id for item in latest[: min(turns, room // 2)]}
    reserved = len(own - {hit.item.id for hit in related[:room]})
    chosen = list(related[: room - reserved])
    taken = {hit.item.id for hit in chosen}
    least = min([1.0, *(hit.score for hit in chosen)])
    fill = [item for item in latest if item.id not in taken][: room - len(chosen)]
    recent = [Hit(item=item, score=least / (2 * age), recency=1 / age) for age, item in enumerate(fill, start=1)]
    return [*hits, *chosen, *recent]


@lru_cache(maxsize=64)
def _shown(text: str, max_tokens: int) -> str:
    """Return a text shortened to the token limit; cached, because the same summary is shown at every turn."""
    # A word is about one and a third tokens.
    return text if estimate_tokens(text) <= max_tokens else extract_summary(text, 3 * max_tokens // 4)


def _day(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        # Milliseconds taken for seconds, say: a time that no calendar has.
        return f"{seconds:g}"


class BrainMemory(CollectionMemory):
    """Keeps every message as an item, and of each conversation a state: its latest messages and the summaries before.

    Nodes use it like any store; `brain` gives one conversation to work with directly.
    """

    config_model: ClassVar[type[ConfigModel]] = BrainConfig
    summary: ClassVar[str] = "Conversations: older turns become summaries, every message stays findable; Redis, file"

    @staticmethod
    def to_int(value: object, default: int) -> int:
        """Return a value as a whole number, or `default` when it is not one."""
        try:
            return int(str(value))
        except ValueError:
            return default

    @staticmethod
    def extract_info(text: str, pattern: str = r"\[([A-Z]+)\]:\s*(.+)") -> tuple[str | None, str]:
        """Return tag and content, all its lines, of `[TAG]: content`; any other text has no tag.

        `pattern` has two groups: the tag, and the content.
        """
        found = re.match(pattern, text, re.DOTALL)
        return (found[1], found[2]) if found else (None, text)

    def __init__(self, setup: StoreSetup) -> None:
        """Prepare the store; nothing is opened or asked yet.

        Raises:
            MissingExtraError: Redis is configured, and its package is not installed.
        """
        super().__init__(setup)
        self.config = config = setup.config_as(BrainConfig)
        redis: RedisStates | None = None
        if config.redis is not None:
            redis = RedisStates(config.redis, prefix=config.redis.prefix or self.name, clock=setup.monotonic)
        self.states = ConversationStates(self.name, lambda: states_of(self.collection), redis)
        llm = config.llm_model
        self.chat_model = TextModel(lambda: setup.open_chat(llm), llm.params) if llm else None
        self.text_summarizer = Summarizer(
            self.chat_model, window=config.window, language=config.language, instruction=config.summary_prompt or ""
        )
        self._compressing: set[ChatKey] = set()
        self._compressing_lock = threading.Lock()
        self._backoff = Backoff(longest=_LONGEST_PAUSE, clock=setup.monotonic)
        self._last_failure: DevmemError | None = None

    def brain(self, user: str = "", chat: str = "") -> Brain:
        """Return one conversation of one user; both may be empty where there is only one."""
        return Brain(ChatKey(user=user, chat=chat), self)

    def brain_of(self, scope: Scope) -> Brain:
        """Return the conversation that a scope names: its user, and its conversation or else its session."""
        return Brain(ChatKey.of(scope), self)

    def current(self, state: BrainState) -> BrainState:
        """Return the state without what has expired, and without summaries that tell of it."""
        return without(state, state.expired_items(self.setup.clock()), self._entries)

    def without_erased(self, text: str, key: ChatKey) -> str:
        """Return a text without the sentences that a tombstone of a conversation's user keeps out."""
        return without_erased(self.collection, text, key.user or None)

    def _entries(self, items: Iterable[str]) -> list[StoredMessage]:
        return [entry for item in self.get(list(items)) for entry in entries_of(item)]

    def load(self) -> None:
        """Open the items, and finish what an earlier process left unfinished; Redis may be down."""
        super().load()
        collection = self.collection
        if isinstance(collection, VersionedCollection) and collection.tombstones():
            # A backup that was put in place may have brought back what was erased.
            for key in self.states.known():
                known = self.states.load(key).known_items()
                self._leave(key, known - {item.id for item in self.get(sorted(known))})
        self._catch_up()
        self.states.flush()

    def _catch_up(self) -> None:
        """Add the items stored last to their conversations, where a process died before it could."""
        missed: dict[ChatKey, list[MemoryItem]] = {}
        for item in reversed(self.recent(self.config.max_messages)):
            if belongs_to_conversation(item):
                missed.setdefault(ChatKey.of(item.scope), []).append(item)

        def added(state: BrainState, items: list[MemoryItem]) -> BrainState:
            for item in items:
                if item.id in state.removed:
                    continue
                entries = entries_of(item)
                state = with_knowledge(state, entries[0]) if is_knowledge(item) else with_entries(state, entries)
            return state

        for key, items in missed.items():
            self.states.update(key, partial(added, items=items))

    def look(self) -> None:
        """Open the items as they are; nothing is finished and Redis is not asked."""
        self.open_as_it_is()

    def save(self) -> None:
        """Embed what waits for its embedding, and write waiting states to Redis."""
        super().save()
        self.states.flush()

    def close(self) -> None:
        """Release the collection and the connections."""
        super().close()
        if self.states.redis is not None:
            self.states.redis.close()

    def show(self, view: Collection, origin: MemoryBase) -> None:  # noqa: ARG002 - whatever it shows
        """Refuse: the states of conversations, which are beside the items, have no versions."""
        raise NoVersionsError(self.name, "the states of its conversations are kept beside its items, without versions")

    def examine_states(self, states: Mapping[StateKey, bytes]) -> tuple[Mapping[str, Fact], Sequence[Finding]]:
        """Return counts of conversations, and of those that wait."""
        kinds = [kind for kind, _ in states]
        waiting = kinds.count(WAITING)
        return {"conversations": kinds.count(STATE)}, [unfinished(f"{waiting:,} states wait for Redis")] * bool(waiting)

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Make the item of an exchange."""
        return item_of_exchange(payload, length=self.config.max_content_length, now=self.setup.clock())

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said, and add it to its conversation."""
        item = self.compose(payload)
        if isinstance(item, WriteOutcome):
            return item
        (item,) = self.stamped([item])
        (outcome,) = self.store_items([item])
        if outcome.erased_before:
            return outcome
        return self.brain_of(payload.scope).change(partial(with_entries, entries=entries_of(item)), outcome)

    def _replaced(self, items: Sequence[MemoryItem]) -> None:
        """Trust items in their conversations as they are now."""
        changed: dict[ChatKey, dict[str, float]] = {}
        for item in items:
            changed.setdefault(ChatKey.of(item.scope), {})[item.id] = item.trust
        for key, trusts in changed.items():
            self.states.update(key, partial(retrusted, items=trusts, read=self._entries))

    def rank(self, query: MemoryQuery) -> SearchReport:
        """Put the conversation's summary before what is related, and the latest turns after it."""
        related = self.search_collection(query)
        where = query.where
        if where != Filter(scope=where.scope, include_unscoped=where.include_unscoped, unbound=where.unbound):
            # Neither a summary nor a turn of a conversation is known to fit a filter by time, source or metadata.
            return related
        key = self._chat_of(where)
        if key is None:
            return related
        state = Brain(key, self).snapshot()
        # An item keeps two messages at most.
        entries = state.entries[-2 * query.limit - self.config.keep_messages :]
        latest = latest_items(entries, self.get([entry.item_id for entry in entries]), key)
        least = query.similarity_threshold
        if self.embedder and least > -1 and (vector := query.embedding.by(self.embedder)) is not None:
            latest = [item for item in latest if item.embedding is None or float(item.embedding @ vector) >= least]
        hits = composed(
            query.limit,
            summary=summary_item(state, key, self.name, max_tokens=self.config.max_tokens // 2),
            related=related.hits,
            latest=latest,
            turns=self.config.keep_messages,
        )
        return replace(related, hits=tuple(hits))

    def _chat_of(self, where: Filter) -> ChatKey | None:
        """Return the conversation that a query is about: that of the newest item that it may see.

        None when the filter admits only a part of a conversation, such as the messages of one agent: the summary and
        the latest turns are of all.
        """
        own = self.recent(1, replace(where, include_unscoped=False)) or self.recent(1, where)
        scope = own[0].scope if own else where.scope
        part = where.scope
        if part.agent or part.trace or part.run or (part.session and scope.conversation):
            return None
        return ChatKey.of(scope)

    # Items leave their conversations, and the summaries that mention them go, before the items are deleted: what is
    # interrupted in between leaves an item, but no text of a deleted one.

    def _leave(self, key: ChatKey, ids: Iterable[str]) -> None:
        if gone := set(ids):
            self.states.update(key, partial(without, items=gone, read=self._entries))

    def _leave_all(self, items: Iterable[MemoryItem]) -> None:
        found: dict[ChatKey, set[str]] = {}
        for item in items:
            found.setdefault(ChatKey.of(item.scope), set()).add(item.id)
        for key, ids in found.items():
            self._leave(key, ids)

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Forget the items stored last, and the summaries made of them; return them, newest first."""
        found = self.recent(count, where)
        self._leave_all(found)
        # Of several callers one deletes an item.
        return [item for item in found if super(BrainMemory, self)._delete([item.id], None)]

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Forget the named or the matching items, and the summaries made of them."""
        self._leave_all(self.get(ids) if ids is not None else self.collection.scan(where))
        return super()._delete(ids, where)

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the newest items, and those that are too old, and the summaries made of them."""
        found = list(self.collection.scan())
        surplus = found[: max(len(found) - keep, 0)] if keep is not None else []
        old = [item for item in found if stored_before is not None and item.created_at < stored_before]
        self._leave_all(item for item in (*surplus, *old) if not is_pinned(item))
        return super().trim(keep=keep, stored_before=stored_before)

    def clear(self) -> int:
        """Forget everything."""
        for key in self.states.known():
            self.states.update(key, emptied)
        return super().clear()

    def rewrite_files(self) -> Sequence[Residue]:
        """Remove the states of conversations that are gone; return what of earlier states could not be reached."""
        try:
            self.states.discard_empty()
        except BrainRedisError as error:
            return [Residue(place=error.place, reason=str(error), failed=True)]
        left = super().rewrite_files()
        if self.states.redis is None:
            return left
        reason = "what Redis writes to its disk has earlier states until it is rewritten"
        return [*left, Residue(place=self.states.redis.place, reason=reason)]

    def compress(self) -> int:
        """Summarize all but the latest messages of every conversation; return the number of messages.

        Raises:
            ChatModelError: the language model gave no answer; what is not summarized stays in the history.
            CollectionError: a summary cannot be written; likewise.
        """
        return sum(Brain(key, self).compress() for key in self.states.known())

    def compress_state(self, key: ChatKey, state: BrainState, *, all_older: bool = False) -> int:
        """Summarize until a conversation is small enough, and return the number of messages; nothing is locked.

        A conversation that another thread compresses is left to it. With `all_older` all but the latest messages are
        summarized, and the model is called whatever failed before.

        Raises:
            DevmemError: the model gave no answer, or a summary cannot be written; also while the model is left alone
                after such a failure. What is not summarized stays in the history.
        """
        if next_step(state, self.config, all_older=all_older) is None:
            return 0
        with self._compressing_lock:
            if not all_older and self._backoff.left and self._last_failure is not None:
                raise self._last_failure.with_traceback(None)
            if key in self._compressing:
                return 0
            self._compressing.add(key)
        messages = steps = 0
        try:
            while step := next_step(state, self.config, all_older=all_older):
                if steps == _STEPS_A_WRITE and not all_older:
                    break
                steps += 1
                made = self.text_summarizer.summarize(step.text(), max_words=self.config.summary_words)
                summary = step.summary(self.without_erased(made.text, key) or _NOTHING_LEFT, made.method)
                state, _ = self.states.update(key, partial(step.applied, summary))
                self._backoff.worked()
                if summary not in state.summaries:
                    # Another process was faster.
                    break
                messages += len(step.entries)
        except DevmemError as error:
            self._last_failure = error
            self._backoff.failed()
            raise
        finally:
            with self._compressing_lock:
                self._compressing.discard(key)
        return messages

    def take_states(self, source: MemoryBase) -> int:
        """Take over the conversations of a store whose messages were copied into this one, with their summaries."""
        if not isinstance(source, BrainMemory):
            return 0
        keys = source.states.known()
        for key in keys:
            self.states.update(key, partial(merge, Brain(key, source).snapshot()))
        return len(keys)
