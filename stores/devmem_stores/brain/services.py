"""Services that the conversations of one store share: items, states, and the language model's tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final, Protocol

from devmem import Filter, MemoryItem, Scope, WriteOutcome
from devmem.llm import Summarizer
from devmem_stores.brain.archive import KNOWLEDGE_KEY, belongs_to_conversation, entries_of, was_said
from devmem_stores.brain.compression import Compressor
from devmem_stores.brain.config import BrainConfig
from devmem_stores.brain.deletion import without
from devmem_stores.brain.keys import ChatKey
from devmem_stores.brain.llm_tasks import LlmTasks
from devmem_stores.brain.local_states import LocalStates, Watermark
from devmem_stores.brain.state import BrainState, Entry, with_entries
from devmem_stores.brain.state_store import StateStore

_LOOKED_THROUGH: Final = 200
_FIRST_PAGE: Final = 64


class Archive(Protocol):
    """The store's items."""

    def add_item(self, item: MemoryItem) -> WriteOutcome:
        """Store an item, durably."""
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
