"""The `conversation` store: the global memory of everything that users, agents, tools and models say to each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar
from uuid import uuid4

from pydantic import JsonValue

from devmem import Caller, Filter, MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.models import Summarizer, TextModel
from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType, caller_in_trace, in_order
from devmem.storage import EraseRequest, Order
from devmem.stores import (
    ConfigModel,
    FactKeepingMemory,
    MemoryQuery,
    Said,
    SearchReport,
    StoreSetup,
    ViewConfig,
    WriteStatus,
    item_from,
    skipped,
    turns_of,
)
from devmem.text import shorten
from devmem_stores.conversation.config import ConversationConfig
from devmem_stores.conversation.items import (
    Language,
    RecordSelection,
    by_participant,
    chronological_hits,
    interaction_to_item,
    item_to_interaction,
    participants_in,
    said_in,
    summaries_for,
    without_facts,
    worded,
)
from devmem_stores.conversation.maintenance import Maintenance, stands_for, summaries_of


class ConversationMemory(FactKeepingMemory):
    """Keeps each record once, by its id, and returns it in the order in which things happened.

    An `InteractionRecorder` writes to it with `record`. Agents that attach it read a view: by default their own
    questions and answers, without their calls of tools, models and knowledge.

    A filter by agent means the records in which the agent takes part, as their source or their target.
    """

    config_model: ClassVar[type[ConfigModel]] = ConversationConfig
    summary: ClassVar[str] = "Global memory: all that users, agents, tools and models say to each other, traced"

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(ConversationConfig)
        self._maintenance = Maintenance(self)

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Store records; one that is stored already is left unchanged.

        Raises:
            CollectionError: nothing was stored.
        """
        self.store_items(self.items_of(interactions))

    def items_of(self, interactions: Sequence[Interaction]) -> list[MemoryItem]:
        """Return the items that keep records."""
        now, length = self.setup.clock(), self.config.summary_length
        return [interaction_to_item(one, stored_at=now, summary_length=length) for one in interactions]

    def every_record(self) -> Iterator[Interaction]:
        """Return all records, a few at a time, in the order in which they were stored."""
        found = (item_to_interaction(item) for item in self.collection.scan())
        return (record for record in found if record is not None)

    def copies_of(self, records: Sequence[Interaction]) -> list[MemoryItem]:
        """Return the items that keep records in another store: sentences, the same each time, under their ids."""
        length, language = self.config.summary_length, self.config.language
        # As they are read again, whose time is in whole microseconds: a copy is the same whenever it is made.
        stored = [Interaction.from_json(one.to_json()) for one in records]
        items = [interaction_to_item(one, stored_at=one.event_time, summary_length=length) for one in stored]
        return [worded(item, me=None, language=language) for item in items]

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said, unless it is recorded already."""
        item = self.compose(payload)
        if isinstance(item, WriteOutcome):
            return item
        if _caller_of(payload).call and self.collection.get([item.id]):
            return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=item.id, reason="the call is recorded already")
        return self.store_items([item])[0]

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Return the answer of a node as a record, with its question beside it; or the question where it is alone."""
        asked = "\n\n".join(turn.text.strip() for turn in turns_of(payload))
        answered = payload.output_text().strip()
        if not asked and not answered:
            return skipped("neither the input nor the output has a text")
        scope, caller = payload.scope, _caller_of(payload)
        pair = caller.call or uuid4().hex
        agent = Participant(caller.name or scope.agent or payload.source or "agent", ParticipantType.AGENT)
        asking = _asking(payload)
        kind = InteractionKind.OUTPUT if answered else InteractionKind.INPUT
        record = Interaction(
            id=f"{pair}-{kind.value}",
            conversation=caller.conversation or scope.conversation or scope.session or "",
            trace=caller.trace or scope.trace or scope.run or pair,
            source=agent if answered else asking,
            target=asking if answered else agent,
            kind=kind,
            content=answered or asked,
            event_time=self.setup.clock() if payload.event_time is None else payload.event_time,
            pair_id=pair,
            language=self.config.language,
            user=scope.user,
        )
        item = item_from(payload, shorten(record.content, self.config.summary_length), created_at=self.setup.clock())
        (kept,) = self.items_of([record])
        beside = payload.input_snapshot or (MemoryContentSnapshot(text=asked) if asked else None)
        return replace(
            item,
            id=record.id,
            metadata={**item.metadata, **kept.metadata},
            event_time=record.event_time,
            scope=replace(
                item.scope,
                conversation=scope.conversation or caller.conversation,
                trace=scope.trace or caller.trace,
            ),
            input_snapshot=beside,
            output_snapshot=payload.output_snapshot if answered else kept.output_snapshot,
        )

    def log(self, conversation: str) -> list[Interaction]:
        """Return all records of a conversation as they happened."""
        return self.records(Filter(scope=Scope(conversation=conversation)))

    def trace(self, trace: str) -> list[Interaction]:
        """Return all records of a trace as they happened; `call_tree` makes a tree of them."""
        return self.records(Filter(scope=Scope(trace=trace)))

    def view(self, view: RecordSelection | str, top_k: int, where: Filter | None = None) -> list[Interaction]:
        """Return the latest records of a view, or of the agent of a name, as they happened, at most `top_k`."""
        view = RecordSelection(agent=view) if isinstance(view, str) else view
        return _records_in(self._latest(view.filter(where or Filter()), top_k))

    def records(self, where: Filter) -> list[Interaction]:
        """Return the records that match a filter as they happened."""
        return _records_in(self.scan(where))

    def rank(self, query: MemoryQuery) -> SearchReport:
        """Return the latest records of the view, or those of it that fit the query best.

        An agent that asks gets sentences in which it is "you"; anybody else gets the items as they are.
        """
        options, me = query.view or self.config.view, query.caller.name or None
        view = RecordSelection(
            agent=None if options.all_agents else options.agent_id or me or query.where.scope.agent,
            counterparts=frozenset(options.memory_types),
            without_trace=query.caller.trace if options.skip_current_trace else None,
        )
        if options.order == "search":
            report = self.search_collection(replace(query, where=view.filter(query.where)))
            hits = [replace(hit, item=self._shown(hit.item, me, query.where)) for hit in report.hits]
            return replace(report, hits=tuple(hits))
        items = self._seen(view, options, query.where, query.limit)
        shown = [self._shown(item, me, query.where) for item in items]
        return SearchReport.of(chronological_hits(shown, options.max_tokens))

    def context(
        self,
        *,
        agent: str | None = None,
        where: Filter | None = None,
        max_tokens: int = 2000,
        top_k: int = 100,
        language: Language | None = None,
    ) -> str:
        """Return what an agent may know of the latest interactions, for a prompt: a sentence each, oldest first.

        Args:
            agent: name of the agent that reads it, which is addressed as "you"; None reads what everybody said.
            where: further restricts it, as to a user or a conversation.
            max_tokens: maximum number of estimated tokens; the newest stay, the first that does not fit is shortened.
            top_k: maximum number of records.
            language: of the sentences; None takes the store's.
        """
        options = self.config.view
        chosen = RecordSelection(
            agent=None if options.all_agents else options.agent_id or agent,
            counterparts=frozenset(options.memory_types),
        )
        items = self._seen(chosen, options, where or Filter(), top_k)
        shown = [worded(item, me=agent, language=language or self.config.language) for item in items]
        return "\n".join(hit.item.content_summary for hit in chronological_hits(shown, max_tokens))

    def _latest(self, where: Filter, count: int) -> list[MemoryItem]:
        """Return the items that match and happened last, the oldest first."""
        return self.collection.recent(count, where, order=Order.EVENT)[::-1]

    def _seen(self, view: RecordSelection, options: ViewConfig, where: Filter, limit: int) -> list[MemoryItem]:
        """Return the latest items of a view, the oldest first, at most `limit`.

        The last summary of their conversation takes the place of those that it stands for.
        """
        items = self._latest(view.filter(without_facts(where)), limit)
        conversation = items[-1].scope.conversation if items and options.summaries else None
        if conversation is None:
            return items
        there = replace(where, scope=replace(where.scope, conversation=conversation))
        found = self.collection.recent(1, summaries_for(view.agent, there), order=Order.EVENT)
        summary = item_to_interaction(found[0]) if found else None
        if summary is None:
            return items
        records = [(item, item_to_interaction(item)) for item in items]
        rest = [
            item
            for item, record in records
            if record is None or record.conversation != summary.conversation or not stands_for(summary, record)
        ]
        return [*found, *rest[-max(limit - 1, 1) :]] if limit > 1 else rest or found

    def _shown(self, item: MemoryItem, me: str | None, where: Filter) -> MemoryItem:
        shown = item if me is None else worded(item, me=me, language=self.config.language)
        agent = where.scope.agent
        # What an agent sees belongs to it for whoever asked for its items.
        return shown if agent is None else replace(shown, scope=replace(shown.scope, agent=agent))

    # Filters by agent are filters by participant.

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        return super().recent(limit, where and by_participant(where), order=order, offset=offset)

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item that matches, in an order, a few at a time."""
        return super().scan(where and by_participant(where), order=order, offset=offset)

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        return super().count(where and by_participant(where))

    def texts_of(self, item: MemoryItem) -> list[Said]:
        """Return what was said in a record between users and agents; nothing for calls of tools and models."""
        return said_in(item)

    def fact_metadata(self, item: MemoryItem) -> Mapping[str, JsonValue]:
        """Return who took part in a record: those whose views have it have its facts."""
        return {**participants_in(item), "type": "fact"}

    def _replaced(self, items: Sequence[MemoryItem]) -> None:
        """Delete summaries and facts that are trusted more than what they tell of is now."""
        super()._replaced(items)
        self._maintenance.forget_too_trusted(items)

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete items, and the summaries that tell of them.

        By agent, every record is deleted in which the agent takes part: a record is kept once, so that nothing of it
        stays with the other side.
        """
        matching = where and by_participant(where)
        self._maintenance.forget_summaries(ids, matching)
        return super()._delete(ids, matching)

    def erasing_filter(self, where: Filter) -> Filter:
        """Return the filter by which items are erased: by agent, every record in which the agent takes part."""
        return by_participant(where)

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items; summaries of records are among them."""
        derived = super().derived_from(ids)
        first = super().select_erasable(EraseRequest(ids=tuple(ids)))
        known = {*ids, *(item.id for item in derived)}
        told = summaries_of(
            [*first, *derived], lambda where: super(ConversationMemory, self).select_erasable(EraseRequest(where=where))
        )
        return [*derived, *(item for item in told if item.id not in known)]

    def summarizer(self) -> Summarizer:
        """Return what makes the store's summaries; without a language model it selects sentences."""
        options, setup = self.config.summary, self.setup
        llm = None if options.llm is None or options.llm.provider == "extractive" else options.llm
        model = TextModel(lambda: setup.open_chat(llm), llm.params) if llm is not None else None
        return Summarizer(model, language=self.config.language, instruction=options.prompt or "")

    def compress(self) -> int:
        """Summarize the older records of each agent's view of each conversation; return the number of new ones.

        The records stay until `trim` deletes them.

        Raises:
            ChatModelError: the language model gave no answer; the summaries before it are stored.
        """
        return self._maintenance.compress()

    def trim_to_tokens(self, max_tokens: int, where: Filter | None = None) -> int:
        """Delete the oldest records until the others have at most `max_tokens` tokens; return their number.

        Where the newest alone has more, its text is shortened.
        """
        return self._maintenance.trim_to_tokens(max_tokens, by_participant(where or Filter()))


def _caller_of(payload: MemoryWritePayload) -> Caller:
    """Return who writes: parts that the payload leaves open are those of the recorded call in progress.

    A call that is in progress belongs to the agent that made it alone.
    """
    caller, current = payload.caller, caller_in_trace()
    if caller.name not in ("", current.agent) or payload.source not in ("", current.agent, caller.node):
        current = replace(current, agent="", call=None)
    return caller.completed_by(current)


def _asking(payload: MemoryWritePayload) -> Participant:
    """Return who asked the node: the last sender of its input."""
    turns = turns_of(payload)
    last = turns[-1] if turns else None
    if last is None or last.role == "user" or not last.speaker:
        return Participant(payload.scope.user or "user", ParticipantType.USER)
    return Participant(last.speaker, ParticipantType.TOOL if last.role == "tool" else ParticipantType.AGENT)


def _records_in(items: Iterator[MemoryItem] | Sequence[MemoryItem]) -> list[Interaction]:
    records = (item_to_interaction(item) for item in items)
    return in_order(record for record in records if record is not None)
