"""Keeping a global memory small: summaries of what is older, and trimming by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from devmem import Filter, MemoryContentSnapshot, MemoryItem, Scope, WriteOutcome
from devmem.collections import Collection, Order
from devmem.llm import Summarizer
from devmem.recording import Interaction, InteractionKind, ParticipantType
from devmem.stores import derived, estimate_tokens, shorten
from devmem_stores.conversation.budget import within
from devmem_stores.conversation.config import ConversationConfig
from devmem_stores.conversation.items import item_to_interaction
from devmem_stores.conversation.summaries import covered_until, summarize
from devmem_stores.conversation.views import View, summaries_for


class Archive(Protocol):
    """The store whose records are kept small."""

    @property
    def collection(self) -> Collection:
        """The place where the items are."""
        ...

    def records(self, where: Filter) -> list[Interaction]:
        """Return the records that match a filter as they happened."""
        ...

    def items_of(self, interactions: Sequence[Interaction]) -> list[MemoryItem]:
        """Return the items that keep records."""
        ...

    def store_items(self, items: Sequence[MemoryItem]) -> list[WriteOutcome]:
        """Store items."""
        ...


class Maintenance:
    """Makes and forgets the summaries of one store, and trims it."""

    def __init__(self, archive: Archive, config: ConversationConfig, summarizer: Summarizer) -> None:
        self._archive, self._config, self._summarizer = archive, config, summarizer

    def compress(self) -> int:
        """Summarize what is due of every view of every conversation; return the number of newly summarized records."""
        conversations: dict[tuple[str | None, str], set[str]] = {}
        for item in self._archive.collection.scan():
            if item.scope.conversation is not None:
                agents = conversations.setdefault((item.scope.user, item.scope.conversation), set())
                agents.update(_agents_in(item.metadata))
        return sum(
            self._compress_view(_within(user, conversation), agent)
            for (user, conversation), agents in conversations.items()
            for agent in (None, *sorted(agents))
        )

    def _compress_view(self, where: Filter, agent: str | None) -> int:
        found = self._archive.collection.recent(1, summaries_for(agent, where), order=Order.EVENT)
        before = item_to_interaction(found[0]) if found else None
        view = View(agent=agent, counterparts=frozenset(self._config.view.memory_types))
        start = covered_until(before)[0] if before is not None else None
        records = self._archive.records(view.filter(replace(where, after=start)))
        made = summarize(records, before, agent=agent, config=self._config, summarizer=self._summarizer)
        if made is None:
            return 0
        items = self._archive.items_of([made.record])
        parents = self._archive.collection.get(made.sources)
        self._archive.store_items([derived(item, parents) for item in items])
        return made.added

    def forget_summaries(self, ids: Sequence[str] | None, where: Filter | None) -> None:
        """Delete the summaries that tell of items which are about to be deleted; `compress` makes them again.

        They are deleted first, so that nothing that is forgotten stays in a summary, whenever the process ends.
        """
        if ids is None and where is None:
            return
        collection = self._archive.collection
        items = collection.get(ids) if ids is not None else collection.scan(where)
        told = summaries_of(items, collection.scan)
        if told:
            collection.delete(ids=[item.id for item in told])

    def trim_to_tokens(self, max_tokens: int, where: Filter) -> int:
        """Delete the oldest items that match until the others have at most `max_tokens` tokens; see the store."""
        collection = self._archive.collection
        sizes = [(item.id, estimate_tokens(_text_of(item))) for item in collection.scan(where, order=Order.EVENT)]
        room, gone = max_tokens, [item_id for item_id, _ in sizes[:-1]]
        for place in range(len(sizes) - 1, -1, -1):
            room -= sizes[place][1]
            if room < 0:
                break
            gone = [item_id for item_id, _ in sizes[:place]]
        if sizes and sizes[-1][1] > max_tokens:
            self._archive.store_items([self._shortened(item, max_tokens) for item in collection.get([sizes[-1][0]])])
        return collection.delete(ids=gone) if gone else 0

    def _shortened(self, item: MemoryItem, max_tokens: int) -> MemoryItem:
        text = within(_text_of(item), max_tokens)
        return replace(
            item,
            content_summary=shorten(text, self._config.summary_length),
            output_snapshot=MemoryContentSnapshot(text=text),
            input_snapshot=None,
            embedding=None,
            content_hash="",
        )


def summaries_of(items: Iterable[MemoryItem], find: Callable[[Filter], Iterable[MemoryItem]]) -> list[MemoryItem]:
    """Return the summaries that tell of some items; `find` returns the items that match a filter."""
    told: list[MemoryItem] = []
    for (user, conversation), first in _earliest(items).items():
        everyone = replace(_within(user, conversation), metadata={"type": InteractionKind.SUMMARY.value})
        told += [
            item
            for item in find(everyone)
            if (summary := item_to_interaction(item)) is not None and covered_until(summary) >= first
        ]
    return told


def _within(user: str | None, conversation: str) -> Filter:
    return Filter(scope=Scope(user=user, conversation=conversation), unbound=() if user else ("user",))


def _agents_in(metadata: Mapping[str, object]) -> Iterator[str]:
    for side in ("source", "target"):
        name = metadata.get(side)
        if metadata.get(f"{side}_type") == ParticipantType.AGENT.value and isinstance(name, str) and name:
            yield name


def _earliest(items: Iterable[MemoryItem]) -> dict[tuple[str | None, str], tuple[float, int]]:
    """Return event time and sequence of the first record of each user's conversation; summaries are none."""
    first: dict[tuple[str | None, str], tuple[float, int]] = {}
    for item in items:
        record = item_to_interaction(item)
        if record is None or record.kind is InteractionKind.SUMMARY or not record.conversation:
            continue
        key, place = (record.user, record.conversation), (record.event_time, record.sequence)
        first[key] = min(place, first.get(key, place))
    return first


def _text_of(item: MemoryItem) -> str:
    return item.output_snapshot.text if item.output_snapshot else item.content_summary
