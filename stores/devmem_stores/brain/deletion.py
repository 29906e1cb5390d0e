"""Removal of items from a state and from the summaries made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from devmem_stores.brain.state import REMOVED, BrainState, Entry


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
