"""Keeping a global memory small: summaries of older items, and trimming by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from devmem import Filter, MemoryContentSnapshot, MemoryItem, Scope
from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.storage import Order
from devmem.stores import LEAST_TRUST, derived, without_erased
from devmem.text import estimate_tokens, shorten
from devmem_stores.conversation.items import RecordSelection, item_to_interaction, sentence, summaries_for, within

if TYPE_CHECKING:
    from devmem_stores.conversation.store import ConversationMemory

UNTIL: Final = "until"
"""Key of a summary's extras: event time and sequence of the last record that it stands for."""
COUNT: Final = "records"
"""Key of a summary's extras: number of the records that it stands for."""
_NOTHING_LEFT: Final = "…"
"""Text of a summary every sentence of which tombstones keep out."""


def stands_for(summary: Interaction, record: Interaction) -> bool:
    """Whether a summary covers a record of its conversation."""
    return (record.event_time, record.sequence) <= covered_until(summary)


def covered_until(summary: Interaction | None) -> tuple[float, int]:
    """Return event time and sequence of the last record that a summary stands for."""
    until = summary.extras.get(UNTIL) if summary is not None else None
    if not isinstance(until, list) or len(until) != 2:
        return (float("-inf"), 0)
    time, sequence = until
    return (float(str(time)), int(str(sequence)))


class Maintenance:
    """Makes and forgets the summaries of one store, and trims it."""

    def __init__(self, store: ConversationMemory) -> None:
        self._store, self._config = store, store.config

    def compress(self) -> int:
        """Summarize what is due of every view of every conversation; return the number of newly summarized records."""
        conversations: dict[tuple[str | None, str], set[str]] = {}
        for item in self._store.collection.scan():
            if item.scope.conversation is None:
                continue
            agents = conversations.setdefault((item.scope.user, item.scope.conversation), set())
            for side in ("source", "target"):
                name = item.metadata.get(side)
                if item.metadata.get(f"{side}_type") == ParticipantType.AGENT.value and isinstance(name, str) and name:
                    agents.add(name)
        return sum(
            self._compress_view(_within(user, conversation), agent)
            for (user, conversation), agents in conversations.items()
            for agent in (None, *sorted(agents))
        )

    def _compress_view(self, where: Filter, agent: str | None) -> int:
        """Continue the last summary of a view with the records since, but the latest; return their number."""
        collection, options = self._store.collection, self._config.summary
        found = collection.recent(1, summaries_for(agent, where), order=Order.EVENT)
        before = item_to_interaction(found[0]) if found else None
        view = RecordSelection(agent=agent, counterparts=frozenset(self._config.view.memory_types))
        start = covered_until(before)[0] if before is not None else None
        records = self._store.records(view.filter(replace(where, after=start, min_trust=LEAST_TRUST)))
        new = [one for one in records if before is None or not stands_for(before, one)]
        older = new[: max(len(new) - options.keep, 0)]
        if not older:
            return 0
        said = [sentence(one, me=agent, language=self._config.language) for one in older]
        text = "\n".join([*([before.content] if before is not None else []), *said])
        made = self._store.summarizer().summarize(text, max_words=options.words)
        told = before.extras.get(COUNT) if before is not None else 0
        about: dict[str, JsonValue] = {
            UNTIL: [older[-1].event_time, older[-1].sequence],
            COUNT: len(older) + (told if isinstance(told, int) else 0),
            "method": made.method,
        }
        last = older[-1]
        who = Participant(agent or "", ParticipantType.AGENT if agent else ParticipantType.UNKNOWN)
        # The same id for the same records, so that two processes store one summary.
        named = "\0".join((last.conversation, last.user or "", who.name, last.id))
        summary = Interaction(
            id=f"summary-{blake2b(named.encode(), digest_size=12).hexdigest()}",
            conversation=last.conversation,
            trace="",
            source=who,
            target=who,
            kind=InteractionKind.SUMMARY,
            # A language model may know more than the records say.
            content=without_erased(collection, made.text, last.user) or _NOTHING_LEFT,
            event_time=last.event_time,
            sequence=last.sequence,
            extras=about,
            language=last.language,
            user=last.user,
        )
        parents = collection.get([one.id for one in ([before] if before is not None else []) + older])
        (item,) = self._store.items_of([summary])
        self._store.store_items([derived(item, parents)])
        return len(older)

    def forget_summaries(self, ids: Sequence[str] | None, where: Filter | None) -> None:
        """Delete the summaries that tell of items which are about to be deleted; `compress` makes them again.

        They are deleted first, so that nothing that is forgotten stays in a summary, whenever the process ends.
        """
        if ids is None and where is None:
            return
        collection = self._store.collection
        items = collection.get(ids) if ids is not None else collection.scan(where)
        told = summaries_of(items, collection.scan)
        if told:
            collection.delete(ids=[item.id for item in told])

    def forget_too_trusted(self, changed: Sequence[MemoryItem]) -> None:
        """Delete the summaries that are trusted more than a changed record of theirs; `compress` makes them again."""
        told = summaries_of(changed, self._store.collection.scan)
        trusts = {item.id: item.trust for item in changed}
        gone = [one.id for one in told if any(trusts.get(parent, 1.0) < one.trust for parent in one.provenance.parents)]
        if gone:
            self._store.collection.delete(ids=gone)

    def trim_to_tokens(self, max_tokens: int, where: Filter) -> int:
        """Delete the oldest items that match until the others have at most `max_tokens` tokens; see the store."""
        collection = self._store.collection
        sizes = [(item.id, estimate_tokens(_text_of(item))) for item in collection.scan(where, order=Order.EVENT)]
        room, gone = max_tokens, [item_id for item_id, _ in sizes[:-1]]
        for place in range(len(sizes) - 1, -1, -1):
            room -= sizes[place][1]
            if room < 0:
                break
            gone = [item_id for item_id, _ in sizes[:place]]
        if sizes and sizes[-1][1] > max_tokens:
            for item in collection.get([sizes[-1][0]]):
                text = within(_text_of(item), max_tokens)
                shortened = replace(
                    item,
                    content_summary=shorten(text, self._config.summary_length),
                    output_snapshot=MemoryContentSnapshot(text=text),
                    input_snapshot=None,
                    embedding=None,
                    content_hash="",
                )
                self._store.store_items([shortened])
        return collection.delete(ids=gone) if gone else 0


def summaries_of(items: Iterable[MemoryItem], find: Callable[[Filter], Iterable[MemoryItem]]) -> list[MemoryItem]:
    """Return the summaries that tell of some items; `find` returns the items that match a filter."""
    first: dict[tuple[str | None, str], tuple[float, int]] = {}
    """Event time and sequence of the first record of each user's conversation."""
    for item in items:
        record = item_to_interaction(item)
        if record is not None and record.kind is not InteractionKind.SUMMARY and record.conversation:
            key, place = (record.user, record.conversation), (record.event_time, record.sequence)
            first[key] = min(place, first.get(key, place))
    told: list[MemoryItem] = []
    for (user, conversation), place in first.items():
        everyone = replace(_within(user, conversation), metadata={"type": InteractionKind.SUMMARY.value})
        told += [
            item
            for item in find(everyone)
            if (summary := item_to_interaction(item)) is not None and covered_until(summary) >= place
        ]
    return told


def _within(user: str | None, conversation: str) -> Filter:
    return Filter(scope=Scope(user=user, conversation=conversation), unbound=() if user else ("user",))


def _text_of(item: MemoryItem) -> str:
    return item.output_snapshot.text if item.output_snapshot else item.content_summary
