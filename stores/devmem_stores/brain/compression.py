"""Compression of a conversation: older messages become summaries, and summaries become summaries of a higher level."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import uuid4

from devmem.errors import ChatModelError, CollectionBusyError, MissingExtraError
from devmem.models import Summarizer, SummaryMethod
from devmem.text import Backoff, estimate_tokens
from devmem_stores.brain.config import BrainConfig, ChatKey
from devmem_stores.brain.state import BrainState, Entry, Summary, expiring_sources, least_trust, spoken
from devmem_stores.brain.states import ConversationStates

_LONGEST_PAUSE: Final = 300.0
_STEPS_A_WRITE: Final = 5
"""One step for the messages, and one for each level that it fills; a longer backlog continues with the next write."""
_NOTHING_LEFT: Final = "…"
"""Text of a summary every sentence of which tombstones keep out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of compression: messages, or summaries of one level, to summarize."""

    entries: Sequence[Entry] = ()
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


def _whole_items(entries: tuple[Entry, ...], count: int) -> tuple[Entry, ...]:
    """Return at most `count` of the first messages, none of them without the rest of its exchange."""
    count = min(max(count, 0), len(entries))
    while 0 < count < len(entries) and entries[count - 1].item_id == entries[count].item_id:
        count -= 1
    return entries[:count]


class Compressor:
    """Compresses conversations; the model is called while nothing is locked, and backs off after a failure."""

    def __init__(
        self, config: BrainConfig, states: ConversationStates, summarizer: Summarizer, clock: Callable[[], float],
        *, without_erased: Callable[[str, ChatKey], str],
    ) -> None:  # fmt: skip
        """Take what is compressed, and how; `without_erased` leaves out what tombstones keep out."""
        self._config, self._states, self._summarizer = config, states, summarizer
        self._without_erased = without_erased
        self._busy: set[ChatKey] = set()
        self._lock = threading.Lock()
        self._backoff = Backoff(longest=_LONGEST_PAUSE, clock=clock)
        self._last: Exception | None = None

    def compress(self, key: ChatKey, state: BrainState, *, all_older: bool = False) -> tuple[int, Exception | None]:
        """Summarize until the state is small enough; return the number of messages, and the error that ended it.

        A conversation that another thread compresses is left to it. With `all_older` all but the latest messages are
        summarized, and the model is called whatever failed before.
        """
        if next_step(state, self._config, all_older=all_older) is None:
            return 0, None
        with self._lock:
            if not all_older and self._backoff.left:
                return 0, self._last
            if key in self._busy:
                return 0, None
            self._busy.add(key)
        messages = steps = 0
        try:
            while step := next_step(state, self._config, all_older=all_older):
                if steps == _STEPS_A_WRITE and not all_older:
                    break
                steps += 1
                made = self._summarizer.summarize(step.text(), max_words=self._config.summary_words)
                summary = step.summary(self._without_erased(made.text, key) or _NOTHING_LEFT, made.method)
                state, _ = self._states.update(key, partial(step.applied, summary))
                self._last = None
                self._backoff.worked()
                if summary not in state.summaries:
                    # Another process was faster.
                    break
                messages += len(step.entries)
        except (ChatModelError, MissingExtraError, CollectionBusyError) as error:
            self._last = error
            self._backoff.failed()
            return messages, error
        finally:
            with self._lock:
                self._busy.discard(key)
        return messages, None
