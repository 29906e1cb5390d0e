"""Hits that a node is shown of a conversation: the summary, related items, and the latest turns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from devmem import Hit, MemoryItem
from devmem.stores import TRUST, Provenance, SourceKind, estimate_tokens, extract_summary, mostly_unspaced
from devmem_stores.brain.keys import ChatKey
from devmem_stores.brain.state import BrainState, Entry, spoken

_HEADS: Final = {
    False: "Summary of {count} earlier messages, {start} to {end}:",
    True: "此前{count}条消息的概括({start}至{end}):",
}
_HEARD: Final = 500
"""Number of characters by which the language of a text is detected."""


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


def latest_items(entries: Sequence[Entry], stored: Sequence[MemoryItem], key: ChatKey) -> list[MemoryItem]:
    """Return the items of messages, newest first; items of another machine are rebuilt from the messages."""
    here = {item.id: item for item in stored}
    lines: dict[str, list[str]] = {}
    for entry in entries:
        lines.setdefault(entry.item_id, []).append(spoken(entry.message))
    last = {entry.item_id: entry for entry in entries}
    items = [here.get(item) or _rebuilt("\n".join(said), last[item], key) for item, said in lines.items()]
    return items[::-1]


def _rebuilt(said: str, entry: Entry, key: ChatKey) -> MemoryItem:
    return MemoryItem(
        id=entry.item_id,
        content_summary=said,
        created_at=entry.message.created_at,
        expires_at=entry.expires_at,
        scope=key.scope(),
        trust=entry.trust,
    )


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
    return [*hits, *chosen, *(_recent(item, age, least) for age, item in enumerate(fill))]


def _recent(item: MemoryItem, age: int, below: float) -> Hit:
    recency = 1 / (1 + age)
    return Hit(item=item, score=below * recency / 2, recency=recency)


@lru_cache(maxsize=64)
def _shown(text: str, max_tokens: int) -> str:
    """Return a text shortened to the token limit; cached, because the same summary is shown at every turn."""
    # A word is about one and a third tokens.
    return text if estimate_tokens(text) <= max_tokens else extract_summary(text, 3 * max_tokens // 4)


def _day(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        # Milliseconds taken for seconds, say: a time that no calendar has.
        return f"{seconds:g}"
