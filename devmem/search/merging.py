"""Merging the hits of several stores into one block, marking what was stated otherwise later, and what repeats it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import combinations
from typing import Final

from devmem.model.caller import Caller
from devmem.model.filters import event_key
from devmem.model.interactions import SIDES, Language, labelled_text
from devmem.model.items import MemoryItem, content_hash
from devmem.model.results import CutHit, CutReason, Hit, HitGroup, MemoryRetrievalResult, StoreFailure
from devmem.search.rendering import (
    Shown,
    entry_lines,
    frame_lines,
    origin_mark,
    quote_labels,
    record_mark,
    render,
    section_line,
)
from devmem.text.analysis import STOP_WORDS, estimate_tokens, mostly_unspaced, shorten, terms
from devmem.text.patterns import lazy_pattern
from devmem.text.statements import is_update, restated_share

_EARLIER: Final[dict[Language, tuple[str, str]]] = {
    "en": ("(earlier) ", "(earlier, {day}) "),
    "zh": ("(较早)", "(较早,{day})"),
}
"""Mark of a text that begins with its day already, and of one that does not."""
_STALE: Final[dict[Language, str]] = {
    "en": "(may be outdated: {reason}) ",
    "zh": "(可能已过时:其依据已更改或删除)",
}
"""Mark of an item that was derived from something that is no longer so."""
_SHARED: Final = 0.3
"""Share of the words of the shorter text that two statements of one subject have in common at least."""
_SHARED_LONG: Final = 0.5
"""The same where the shorter text is long: long texts share words by chance."""
_LONG: Final = 12
"""Number of different words from which a text is long."""
_LONGEST: Final = 1000
"""Characters of a text whose words are counted."""
_BEGINNING: Final = 4
"""Letters of a word that its inflected forms have in common."""
_WORD: Final = lazy_pattern(r"\w+")
_COMPARED: Final = 50
"""Number of hits that are compared with each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """How hits of several stores become one block."""

    token_budget: int | None = 4000
    """Estimated tokens of the block; None is no limit."""
    language: Language = "en"
    dedupe: bool = True
    """Show the same content once, even when several stores have it."""
    origins: bool = True
    """Mark what came from a file, a tool, an import or another agent."""
    reader: Caller = field(default_factory=Caller)
    """The agent that is shown the block; what others said is marked where it is known."""


def merge(
    found: Sequence[Sequence[Hit]], policy: MergePolicy, failures: Sequence[StoreFailure] = ()
) -> MemoryRetrievalResult:
    """Merge the hits of several stores, each best first; every hit keeps its score and learns what it is related to.

    Stores' scores cannot be compared, so the budget is filled rank by rank: the best of each store, then the second.
    """
    ranked = _by_rank([with_related(hits) for hits in found])
    kept, cut = _without_twins(ranked) if policy.dedupe else (list(ranked), [])
    shown, over = _within_budget(kept, policy)
    grouped = with_related_together(_grouped(shown))
    return MemoryRetrievalResult(
        formatted_text=render(grouped, policy.language),
        hits=tuple(entry.hit for entry in grouped),
        cut=(*cut, *over),
        failures=tuple(failures),
    )


def _by_rank(found: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    for rank in range(max((len(hits) for hits in found), default=0)):
        yield from sorted((hits[rank] for hits in found if rank < len(hits)), key=lambda hit: -hit.score)


def _without_twins(hits: Iterator[Hit]) -> tuple[list[Hit], list[CutHit]]:
    kept: list[Hit] = []
    cut: list[CutHit] = []
    seen: set[str] = set()
    for hit in hits:
        keys = _content_keys(hit)
        if keys & seen:
            cut.append(CutHit(hit=hit, reason=CutReason.DUPLICATE))
        else:
            kept.append(hit)
        seen |= keys
    return kept, cut


def _content_keys(hit: Hit) -> set[str]:
    """Return keys of which two hits share one when they say the same.

    These are the item, the text with its day, and the exchange that both were made of: `simple` keeps it as `Input: X`,
    `blackboard` as `X`. Texts with different attachments do not say the same.
    """
    item = hit.item
    day = item.dated_summary().removesuffix(item.content_summary.strip())
    snapshots = (item.input_snapshot, item.output_snapshot)
    attached = content_hash("", *(snapshot and replace(snapshot, text="") for snapshot in snapshots))
    text = " ".join(_unlabelled(item.content_summary).casefold().split())
    keys = {f"text {attached}{day}{text}", f"id {item.id}"}
    asked, answered = (snapshot.text if snapshot else "" for snapshot in snapshots)
    if asked or answered:
        keys.add(f"exchange {attached}{asked}\x00{answered}")
    return keys


def _unlabelled(summary: str) -> str:
    """Return a summary without its label if it has one side of an exchange; one of both sides is unchanged."""
    one_sided = not any(f"\n{label}" in summary for label in SIDES)
    label = next((label for label in SIDES if summary.startswith(label)), "")
    return summary.removeprefix(label) if one_sided else summary


def _within_budget(hits: Sequence[Hit], policy: MergePolicy) -> tuple[list[Shown], list[CutHit]]:
    """Take the hits that fit, in order of rank, and skip those that are too long; the first is shortened instead."""
    texts = _texts(hits, policy)
    if policy.token_budget is None:
        return [Shown(hit=hit, text=texts[at]) for at, hit in enumerate(hits)], []
    left = policy.token_budget - estimate_tokens(frame_lines(policy.language))
    shown: list[Shown] = []
    cut: list[CutHit] = []
    numbers: dict[str, int] = {}
    for hit, text in zip(hits, texts, strict=True):
        store = hit.store
        section = 0 if store in numbers else estimate_tokens(section_line(store))
        number = numbers.get(store, 0) + 1
        if not shown:
            text = _fitting(text, left - section)
        cost = section + estimate_tokens(entry_lines(number, text))
        if cost <= left or not shown:
            shown.append(Shown(hit=hit, text=text))
            numbers[store] = number
            left -= cost
        else:
            cut.append(CutHit(hit=hit, reason=CutReason.BUDGET))
    return shown, cut


def _texts(hits: Sequence[Hit], policy: MergePolicy) -> list[str]:
    """Return the text of each hit after its marks."""
    earlier, language = earlier_marks(hits, policy.language), policy.language
    origins = [origin_mark(hit.item, policy.reader, language) if policy.origins else "" for hit in hits]
    return [
        stale_mark(hit, language) + mark + origin + _dated_text(hit, language)
        for mark, origin, hit in zip(earlier, origins, hits, strict=True)
    ]


def _dated_text(hit: Hit, language: Language) -> str:
    """Return the text of a hit after its day and the mark of a record; the text itself can have no form of a label."""
    day = hit.item.dated_summary().removesuffix(hit.item.content_summary.strip())
    has_sides = hit.item.input_snapshot is not None or hit.item.output_snapshot is not None
    return (
        day
        + record_mark(hit.item, language)
        + quote_labels(labelled_text(hit, language).removeprefix(day), sides=not has_sides)
    )


def _fitting(text: str, tokens: int) -> str:
    """Return the text, or as much of it as fits into a number of tokens; at least 20 characters."""
    if estimate_tokens(entry_lines(1, text)) <= tokens:
        return text
    least, most = 20, len(text)
    while least < most:
        middle = (least + most + 1) // 2
        if estimate_tokens(entry_lines(1, shorten(text, middle))) <= tokens:
            least = middle
        else:
            most = middle - 1
    return shorten(text, least)


def _grouped(shown: Sequence[Shown]) -> list[Shown]:
    order = {store: at for at, store in enumerate(dict.fromkeys(entry.hit.store for entry in shown))}
    return sorted(shown, key=lambda entry: order[entry.hit.store])


def by_conversation(hits: Sequence[Hit]) -> list[HitGroup]:
    """Group hits, best first, by the conversation of their items; the group of the best hit comes first.

    Items of the same conversation, session, agent and user are of one conversation; an item of none forms its own.
    """
    groups: dict[object, list[Hit]] = {}
    for at, hit in enumerate(hits):
        scope = hit.item.scope
        alone = scope.conversation is None and scope.session is None
        groups.setdefault(at if alone else (scope.conversation, scope.session, scope.agent, scope.user), []).append(hit)
    return [HitGroup.of(found, found[0].score) for found in groups.values()]


def with_related(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the hits, each with the ids of those that are an older or a newer statement of the same.

    Only hits that happened at different times are compared, and nothing is reordered: that a text resembles another one
    does not make it untrue.
    """
    related: dict[str, list[str]] = {}
    for one, other in combinations(hits[:_COMPARED], 2):
        older, newer = sorted((one.item, other.item), key=event_key)
        if event_key(older) < event_key(newer) and states_otherwise(older, newer):
            related.setdefault(older.id, []).append(newer.id)
            related.setdefault(newer.id, []).append(older.id)
    if not related:
        return tuple(hits)
    return tuple(replace(hit, related=tuple(related.get(hit.item.id, ()))) for hit in hits)


def states_otherwise(older: MemoryItem, newer: MemoryItem) -> bool:
    """Whether an item states again what an older one does, but for one value; see `devmem.text.statements`."""
    one, other = older.content_summary, newer.content_summary
    return _share_enough(_words(one[:_LONGEST]), _words(other[:_LONGEST])) and is_update(
        one, other, same_speaker=_may_be_of_one_person(older, newer)
    )


def restated(older: MemoryItem, newer: MemoryItem) -> float:
    """Return how much of an older item's whole text a newer one states again or otherwise; see `restated_share`."""
    texts = older.full_text(), newer.full_text()
    return restated_share(*texts, same_speaker=_may_be_of_one_person(older, newer))


def _may_be_of_one_person(one: MemoryItem, other: MemoryItem) -> bool:
    """Whether nothing says that two items are of two users, or were said by two people."""
    of_whom = ((one.scope.user, other.scope.user), tuple(item.metadata.get("speaker") for item in (one, other)))
    return all(not a or not b or a == b for a, b in of_whom)


def _share_enough(one: frozenset[str], other: frozenset[str]) -> bool:
    shorter = min(len(one), len(other))
    return len(one & other) >= max((_SHARED if shorter < _LONG else _SHARED_LONG) * shorter, 1)


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """Return what two statements of one subject share: the beginnings of their words, or the terms of Chinese."""
    if mostly_unspaced(text):
        return frozenset(terms(text))
    # Stems would take ten times as long, and only have to tell which texts are worth a closer look.
    return frozenset(word[:_BEGINNING] for word in _WORD.findall(text.lower()) if word not in STOP_WORDS)


def stale_mark(hit: Hit, language: Language) -> str:
    """Return the mark of a hit that may no longer hold; empty for any other."""
    return _STALE[language].format(reason=hit.stale) if hit.stale else ""


def earlier_marks(hits: Sequence[Hit], language: Language) -> list[str]:
    """Return the mark of each hit that a later hit states otherwise; empty for the others."""
    by_id = {hit.item.id: hit for hit in hits}
    return [_mark(hit, language) if _is_earlier(hit, by_id) else "" for hit in hits]


def with_related_together(entries: Sequence[Shown]) -> list[Shown]:
    """Return entries, those of one store that are related next to each other, where the first of them was."""
    left = list(entries)
    ordered: list[Shown] = []
    while left:
        group: list[Shown] = []
        found = [left[0]]
        while found:
            group += found
            left = [entry for entry in left if entry not in found]
            ids = {related for entry in group for related in entry.hit.related}
            found = [entry for entry in left if entry.hit.item.id in ids and entry.hit.store == group[0].hit.store]
        ordered += sorted(group, key=lambda entry: event_key(entry.hit.item))
    return ordered


def _is_earlier(hit: Hit, by_id: Mapping[str, Hit]) -> bool:
    later = (by_id[other].item for other in hit.related if other in by_id)
    return any(event_key(item) > event_key(hit.item) for item in later)


def _mark(hit: Hit, language: Language) -> str:
    plain, with_day = _EARLIER[language]
    if hit.item.event_time is not None:
        return plain
    try:
        day = f"{datetime.fromtimestamp(hit.item.created_at):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        # Not a day of the calendar, as with milliseconds in place of seconds.
        return plain
    return with_day.format(day=day)
