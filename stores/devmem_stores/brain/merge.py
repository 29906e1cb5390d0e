"""Merging two states of one conversation that diverged while they could not be exchanged."""

from __future__ import annotations

from dataclasses import replace

from devmem_stores.brain.state import MARKS, REMOVED, BrainState, Entry, Summary


def merge(one: BrainState, two: BrainState) -> BrainState:
    """Merge two states: the result has the messages of both, without what either forgot.

    Of two summaries of the same messages, that of the state which summarized more is taken.
    """
    removed = {*one.removed, *two.removed}
    older, newer = sorted((one, two), key=lambda state: state.version)
    summaries = _summaries(one, two, removed)
    summarized = {source for summary in summaries for source in summary.sources}
    return replace(
        newer,
        entries=_in_order(one.entries, two.entries, without=removed | summarized),
        knowledge_entries=_in_order(one.knowledge_entries, two.knowledge_entries, without=removed),
        summaries=summaries,
        last_number=max(one.last_number, two.last_number),
        removed=tuple(dict.fromkeys([*older.removed, *newer.removed]))[-REMOVED:],
        marks=tuple(dict.fromkeys([*older.marks, *newer.marks]))[-MARKS:],
    )


def _summaries(one: BrainState, two: BrainState, removed: set[str]) -> tuple[Summary, ...]:
    more, less = sorted((one, two), key=lambda state: (len(state.summarized_items()), state.version), reverse=True)
    covered: set[str] = set()
    taken: dict[str, Summary] = {}
    for summary in (*more.summaries, *less.summaries):
        said_already = bool(summary.sources) and covered.issuperset(summary.sources)
        # A summary repeats what was forgotten too; its other messages are still found in the store.
        if said_already or not removed.isdisjoint(summary.sources):
            continue
        taken.setdefault(summary.id, summary)
        covered.update(summary.sources)
    return tuple(sorted(taken.values(), key=lambda summary: (summary.start, -summary.level, summary.end, summary.id)))


def _in_order(one: tuple[Entry, ...], two: tuple[Entry, ...], *, without: set[str]) -> tuple[Entry, ...]:
    entries = {(entry.item_id, entry.message.id): entry for entry in (*one, *two) if entry.item_id not in without}
    return tuple(sorted(entries.values(), key=lambda entry: entry.message.created_at))
