"""Compression of a conversation: older messages become summaries, and summaries become summaries of a higher level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from devmem.models import SummaryMethod
from devmem.text import estimate_tokens
from devmem_stores.brain.config import BrainConfig
from devmem_stores.brain.state import BrainState, StoredMessage, Summary, expiring_sources, least_trust, spoken


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of compression: messages, or summaries of one level, to summarize."""

    entries: Sequence[StoredMessage] = ()
    summaries: Sequence[Summary] = ()

    def text(self) -> str:
        """Return the text to summarize, a line for each message or summary."""
        return "\n".join([*(spoken(e.message) for e in self.entries), *(s.text for s in self.summaries)])

    def summary(self, text: str, method: SummaryMethod, *, now: float = 0.0) -> Summary:
        """Return the summary with its time span and sources; `now` is when a summary of nothing was made."""
        times = [e.message.created_at for e in self.entries]
        sources = [*(source for s in self.summaries for source in s.sources), *(e.item_id for e in self.entries)]
        level = max((s.level for s in self.summaries), default=0)
        return Summary(
            id=uuid4().hex,
            text=text,
            level=max(level, 1) if self.entries or method == "given" else level + 1,
            start=min([*times, *(s.start for s in self.summaries)], default=now),
            end=max([*times, *(s.end for s in self.summaries)], default=now),
            messages=len(self.entries) + sum(s.messages for s in self.summaries),
            sources=tuple(dict.fromkeys(sources)),
            method=method,
            trust=least_trust(self.entries, self.summaries),
            expiring=expiring_sources(self.entries, self.summaries),
        )

    def applied(self, summary: Summary, state: BrainState) -> BrainState:
        """Return the state with a summary in place of its sources; one that does not hold all of these is unchanged."""
        gone, merged = {entry.key for entry in self.entries}, {old.id for old in self.summaries}
        kept = tuple(entry for entry in state.entries if entry.key not in gone)
        others = [old for old in state.summaries if old.id not in merged]
        if len(state.entries) - len(kept) != len(gone) or len(state.summaries) - len(others) != len(merged):
            return state
        at = next((n for n, old in enumerate(state.summaries) if old.id in merged), len(others))
        return replace(state, entries=kept, summaries=(*others[:at], summary, *others[at:]))


def next_step(state: BrainState, config: BrainConfig, *, all_older: bool = False) -> Step | None:
    """Return the next step of compression; None when the state is small enough.

    The latest messages are never summarized, and the messages of one exchange only together. With `all_older` every
    older message is summarized, however few they are.
    """
    for level in sorted({summary.level for summary in state.summaries}):
        alike = [summary for summary in state.summaries if summary.level == level]
        if len(alike) >= config.summaries_per_level:
            return Step(summaries=tuple(alike[: config.summaries_per_level]))
    older = _whole_items(state.entries, len(state.entries) - config.keep_messages)
    if not older:
        return None
    if len(older) >= config.max_messages:
        return Step(entries=_whole_items(state.entries, config.max_messages) or older)
    too_long = sum(estimate_tokens(spoken(entry.message)) for entry in state.entries) > config.max_tokens
    return Step(entries=older) if all_older or too_long else None


def _whole_items(entries: tuple[StoredMessage, ...], count: int) -> tuple[StoredMessage, ...]:
    """Return at most `count` of the first messages, none of them without the rest of its exchange."""
    count = min(max(count, 0), len(entries))
    while 0 < count < len(entries) and entries[count - 1].item_id == entries[count].item_id:
        count -= 1
    return entries[:count]
