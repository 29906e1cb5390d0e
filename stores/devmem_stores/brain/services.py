"""Services that the conversations of one store share: items, states, and the language model's tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Final, Protocol

from devmem import Filter, MemoryItem, Scope, WriteOutcome
from devmem.messages import Message
from devmem.models import Summarizer
from devmem.stores import LEAST_TRUST
from devmem_stores.brain.archive import KNOWLEDGE_KEY, belongs_to_conversation, entries_of, was_said
from devmem_stores.brain.compression import Compressor, LlmTasks
from devmem_stores.brain.config import BrainConfig, ChatKey
from devmem_stores.brain.local_states import LocalStates, Watermark
from devmem_stores.brain.state import REMOVED, BrainState, Entry, Summary, with_entries
from devmem_stores.brain.state_store import StateStore


def without(state: BrainState, items: set[str], read: Callable[[list[str]], Iterable[Entry]]) -> BrainState:
    """Return the state without items: summaries made of one are dropped, and their other messages are history again.

    `read` returns the messages of items, in order.
    """
    kept = tuple(summary for summary in state.summaries if items.isdisjoint(summary.sources))
    if len(kept) == len(state.summaries) and items.isdisjoint(_listed(state)):
        return state
    still = {source for summary in kept for source in summary.sources}
    loose = [
        source
        for summary in state.summaries
        if summary not in kept
        for source in summary.sources
        if source not in items and source not in still
    ]
    entries = [*read(list(dict.fromkeys(loose))), *(entry for entry in state.entries if entry.item_id not in items)]
    entries.sort(key=lambda entry: entry.message.created_at)
    return replace(
        state,
        entries=tuple(entries),
        knowledge_entries=tuple(entry for entry in state.knowledge_entries if entry.item_id not in items),
        summaries=kept,
        last_talk=state.last_talk if any(entry.message.content == state.last_talk for entry in entries) else None,
        removed=removed_with(state, sorted(items)),
    )


def retrusted(
    state: BrainState, items: Mapping[str, float], read: Callable[[list[str]], Iterable[Entry]]
) -> BrainState:
    """Return the state with another trust of some items: what is made of them is trusted no more than they are.

    Those in quarantine leave it, as by `without`.
    """
    state = without(state, {item for item, trust in items.items() if trust < LEAST_TRUST}, read)

    def entry(one: Entry) -> Entry:
        return replace(one, trust=items.get(one.item_id, one.trust))

    def summary(one: Summary) -> Summary:
        return replace(one, trust=min([one.trust, *(items[source] for source in one.sources if source in items)]))

    return replace(
        state,
        entries=tuple(map(entry, state.entries)),
        knowledge_entries=tuple(map(entry, state.knowledge_entries)),
        summaries=tuple(map(summary, state.summaries)),
    )


def emptied(state: BrainState) -> BrainState:
    """Return an empty state, in which everything counts as forgotten."""
    knowledge = {entry.item_id for entry in state.knowledge_entries}
    gone = sorted({*state.known_items(), *knowledge})
    return BrainState(version=state.version, marks=state.marks, removed=removed_with(state, gone))


def removed_with(state: BrainState, items: Iterable[str]) -> tuple[str, ...]:
    """Return the ids that count as forgotten in a state, with more of them."""
    return tuple(dict.fromkeys([*state.removed, *items]))[-REMOVED:]


def _listed(state: BrainState) -> set[str]:
    return {entry.item_id for entry in (*state.entries, *state.knowledge_entries)}


_LOOKED_THROUGH: Final = 200
_FIRST_PAGE: Final = 64


class Archive(Protocol):
    """The store's items."""

    def add_item(self, item: MemoryItem) -> WriteOutcome:
        """Store an item, durably."""
        ...

    def without_erased(self, text: str, key: ChatKey) -> str:
        """Return a text without the sentences that a tombstone keeps out."""
        ...

    def stamped(self, items: list[MemoryItem]) -> list[MemoryItem]:
        """Return items with the expiry that they are stored with."""
        ...

    def get(self, ids: list[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        ...

    def recent(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Return the items stored last, newest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of a store's conversations."""

    store: str
    config: BrainConfig
    archive: Archive
    states: StateStore
    local: LocalStates
    compressor: Compressor
    summarizer: Summarizer
    llm_tasks: LlmTasks
    clock: Callable[[], float]

    def entries(self, items: list[str]) -> list[Entry]:
        """Return the messages that items keep, in order."""
        return [entry for item in self.archive.get(items) for entry in entries_of(item)]

    def current(self, state: BrainState) -> BrainState:
        """Return the state without what has expired, and without summaries that tell of it."""
        expired = state.expired_items(self.clock())
        return without(state, expired, self.entries) if expired else state

    def rebuilt(self, key: ChatKey, *, but: str | None = None) -> BrainState:
        """Return a state rebuilt from the latest items, where the conversation's own was lost; empty without messages.

        Imported items are no part of it. `but` is the id of an item that is about to be added.
        """
        found = self.archive.recent(_LOOKED_THROUGH, Filter(scope=Scope(user=key.user or None)))
        items = [
            item
            for item in reversed(found)
            if ChatKey.of(item.scope) == key and belongs_to_conversation(item) and item.id != but
        ]
        if not items:
            return BrainState()
        known = [entry for item in items if item.metadata.get(KNOWLEDGE_KEY) for entry in entries_of(item)]
        said = [entry for item in items if was_said(item) for entry in entries_of(item)]
        # All of them first, for the largest number among their ids.
        whole = with_entries(BrainState(knowledge_entries=tuple(known)), said)
        kept = whole.entries[-self.config.max_messages :]
        return BrainState(
            entries=kept,
            knowledge_entries=whole.knowledge_entries,
            last_history_id=whole.last_history_id,
            last_number=whole.last_number,
        )

    def catch_up(self) -> None:
        """Add the items stored last to their conversations, where a process died before it could."""
        missed: dict[ChatKey, list[MemoryItem]] = {}
        unchecked = self._unchecked(self.local.watermark())
        for item in reversed(unchecked):
            if was_said(item):
                missed.setdefault(ChatKey.of(item.scope), []).append(item)
        for key, items in missed.items():
            state = self.states.load(key).state
            if state is None or state.known_items().issuperset(item.id for item in items):
                continue
            entries = [entry for item in items for entry in entries_of(item)]
            self.states.update(key, partial(with_entries, entries=entries))
        if unchecked:
            self.local.set_watermark(Watermark(unchecked[0].id, unchecked[0].created_at))

    def _unchecked(self, watermark: Watermark | None) -> list[MemoryItem]:
        """Return the items stored since the watermark, newest first; before the first check only the latest."""
        if watermark is None:
            return self.archive.recent(self.config.max_messages)
        limit = _FIRST_PAGE
        while True:
            page = self.archive.recent(limit)
            new = list(takewhile(lambda item: item.id != watermark.item, page))
            if len(new) < len(page) or len(page) < limit:
                # Also where the item of the watermark was deleted.
                return [item for item in new if item.created_at >= watermark.stored_at]
            limit *= 4


_TAGGED: Final = r"\[([A-Z]+)\]:\s*(.+)"


def to_int(value: object, default: int) -> int:
    """Return a value as a whole number, or `default` when it is none."""
    try:
        return int(str(value))
    except ValueError:
        return default


def extract_info(text: str, pattern: str = _TAGGED) -> tuple[str | None, str]:
    """Return tag and content, all its lines, of `[TAG]: content`; any other text has no tag.

    `pattern` has two groups: the tag, and the content.
    """
    found = re.match(pattern, text, re.DOTALL)
    return (found[1], found[2]) if found else (None, text)


def to_metagpt_history_format(history: Iterable[Message]) -> str:
    """Return a history as JSON: a list of `{"content": ..., "role": ...}`."""
    return json.dumps([{"content": m.content, "role": m.role.value} for m in history], ensure_ascii=False)


class ConversationReader:
    """The properties and methods of a conversation that change nothing."""

    def __init__(self, key: ChatKey, services: Services) -> None:
        self.key = key
        self._services = services

    def snapshot(self) -> BrainState:
        """Return the state as it is now, which has every property of this class that needs no model."""
        state = self._services.states.load(self.key).state
        return self._services.current(state) if state is not None else self._services.rebuilt(self.key)

    @property
    def history(self) -> list[Message]:
        """The messages that are not summarized."""
        return self.snapshot().history

    @property
    def knowledge(self) -> list[Message]:
        """Messages that add knowledge beside the conversation."""
        return self.snapshot().knowledge

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Summaries of the older messages, in the order of these messages."""
        return self.snapshot().summaries

    @property
    def historical_summary(self) -> str:
        """The texts of the summaries, a line each."""
        return self.snapshot().historical_summary

    @property
    def history_text(self) -> str:
        """The summaries and the history without its last message, a line each."""
        return self.snapshot().history_text

    @property
    def is_history_available(self) -> bool:
        """Whether anything was said."""
        return self.snapshot().is_history_available

    @property
    def last_history_id(self) -> str:
        """Id of the message added last."""
        return self.snapshot().last_history_id

    @property
    def last_talk(self) -> str | None:
        """Last message of the user, until `pop_last_talk` takes it."""
        return self.snapshot().last_talk

    @property
    def is_dirty(self) -> bool:
        """Whether a change is not yet where it should be: in Redis where one is configured, else in the file."""
        return self._services.states.is_dirty(self.key)

    def exists(self, text: str) -> bool:
        """Whether a message of the history has exactly this text."""
        return self.snapshot().exists(text)

    def get_knowledge(self) -> str:
        """Return the knowledge, a line for each message."""
        return self.snapshot().get_knowledge()

    def to_metagpt_history_format(self) -> str:
        """Return the history as JSON: a list of `{"content": ..., "role": ...}`."""
        return to_metagpt_history_format(self.history)

    def sources(self, summary: Summary) -> list[MemoryItem]:
        """Return the items that a summary was made of."""
        return self._services.archive.get(list(summary.sources))
