"""The `conversation` store: the global memory of everything that users, agents, tools and models say to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final
from uuid import uuid4

from devmem import Filter, Hit, MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.collections import Unique
from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType, in_order
from devmem.stores import (
    CollectionMemory,
    ConfigModel,
    MemoryQuery,
    SearchReport,
    StoreSetup,
    item_from,
    shorten,
    skipped,
    strip_frames,
)
from devmem_stores.conversation.config import ConversationConfig
from devmem_stores.conversation.items import interaction_to_item, item_to_interaction
from devmem_stores.conversation.views import View

_MORE: Final = 4
"""Factor by which more items are read when too few of them are part of a view."""


class ConversationMemory(CollectionMemory):
    """Keeps each record once, by its id, and returns it in the order in which things happened.

    A `Recorder` writes to it with `record`. Agents that attach it read a view: by default their own questions and
    answers, without their calls of tools, models and knowledge.
    """

    config_model: ClassVar[type[ConfigModel]] = ConversationConfig
    summary: ClassVar[str] = "Global memory: all that users, agents, tools and models say to each other, traced"
    unique: ClassVar[Unique] = Unique.ID

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(ConversationConfig)

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Store records; one that is stored already is left as it is.

        Raises:
            CollectionError: nothing was stored.
        """
        now, length = self.setup.clock(), self.config.summary_length
        items = [interaction_to_item(one, stored_at=now, summary_length=length) for one in interactions]
        self.store_items(items)

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Return the answer of a node as a record, with its question beside it; or the question where it is alone."""
        asked, answered = strip_frames(payload.inputs_text).strip(), payload.output_text().strip()
        if not asked and not answered:
            return skipped("neither the input nor the output has a text")
        record = self._record_of(payload, asked, answered)
        item = item_from(payload, shorten(record.content, self.config.summary_length), created_at=self.setup.clock())
        kept = interaction_to_item(record, stored_at=item.created_at, summary_length=self.config.summary_length)
        return replace(
            item,
            id=record.id,
            metadata={**item.metadata, **kept.metadata},
            event_time=payload.event_time,
            input_snapshot=payload.input_snapshot or (MemoryContentSnapshot(text=asked) if asked else None),
        )

    def _record_of(self, payload: MemoryWritePayload, asked: str, answered: str) -> Interaction:
        scope, caller = payload.scope, payload.caller
        pair = caller.call or uuid4().hex
        agent = Participant(caller.name or scope.agent or payload.source or "agent", ParticipantType.AGENT)
        user = Participant(scope.user or "user", ParticipantType.USER)
        kind = InteractionKind.OUTPUT if answered else InteractionKind.INPUT
        return Interaction(
            id=f"{pair}-{kind.value}",
            conversation=caller.conversation or scope.conversation or scope.session or "",
            trace=caller.trace or scope.trace or scope.run or pair,
            source=agent if answered else user,
            target=user if answered else agent,
            kind=kind,
            content=answered or asked,
            event_time=self.setup.clock() if payload.event_time is None else payload.event_time,
            pair_id=pair,
            language=self.config.language,
        )

    def log(self, conversation: str) -> list[Interaction]:
        """Return all records of a conversation as they happened."""
        return self._records(Filter(scope=Scope(conversation=conversation)))

    def trace(self, trace: str) -> list[Interaction]:
        """Return all records of a trace as they happened; `call_tree` makes a tree of them."""
        return self._records(Filter(scope=Scope(trace=trace)))

    def view(self, view: View, top_k: int, where: Filter | None = None) -> list[Interaction]:
        """Return the latest records of a view as they happened, at most `top_k`."""
        found = (item_to_interaction(item) for item in self._latest(view, top_k, where or Filter()))
        return in_order(record for record in found if record is not None)

    def rank(self, query: MemoryQuery) -> SearchReport | None:
        """Return the latest records of the configured view, or those of it that fit the query best."""
        view = self._configured_view(query)
        if self.config.view.order == "search":
            return self._search_view(query, view)
        items = self._latest(view, query.top_k, query.where)
        items.sort(key=lambda item: (item.event_time or item.created_at, item.id))
        return SearchReport.of([Hit(item=item, score=1 / (1 + age)) for age, item in enumerate(items)])

    def _search_view(self, query: MemoryQuery, view: View) -> SearchReport:
        wide = replace(query, where=_of_conversation(query.where))
        nearest = self.search_query(wide, limit=_MORE * self.search_depth(query.top_k))
        hits = [hit for hit in self.collection.search(nearest) if _is_shown(view, hit.item)]
        return self.rerank(query, SearchReport.of(hits))

    def _configured_view(self, query: MemoryQuery) -> View:
        settings = self.config.view
        return View(
            agent=settings.agent or query.caller.name or query.where.scope.agent,
            counterparts=frozenset(settings.memory_types),
            without_trace=query.caller.trace if settings.skip_current_trace else None,
        )

    def _latest(self, view: View, count: int, where: Filter) -> list[MemoryItem]:
        """Return the newest items of a view, the newest first."""
        limit = _MORE * count
        while True:
            found = self.collection.recent(limit, _of_conversation(where))
            shown = [item for item in found if _is_shown(view, item)]
            if len(shown) >= count or len(found) < limit:
                return shown[:count]
            limit *= _MORE

    def _records(self, where: Filter) -> list[Interaction]:
        records = (item_to_interaction(item) for item in self.collection.scan(where))
        return in_order(record for record in records if record is not None)


def _of_conversation(where: Filter) -> Filter:
    """Return the filter without the agent, which is a side of a record, not its owner."""
    return replace(where, scope=replace(where.scope, agent=None))


def _is_shown(view: View, item: MemoryItem) -> bool:
    """Whether an item is part of a view; one that is no record, as of an import, always is."""
    record = item_to_interaction(item)
    return record is None or view.shows(record)
