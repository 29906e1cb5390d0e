"""Merging the hits of several stores into one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from devmem.model.caller import Caller
from devmem.model.interactions import SIDES, Language, labelled_text
from devmem.model.items import content_hash
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
from devmem.text.analysis import estimate_tokens, shorten

_STALE: Final[dict[Language, str]] = {
    "en": "(may be outdated: {reason}) ",
    "zh": "(可能已过时:其依据已更改或删除)",
}
"""Mark of an item that was derived from something that is no longer so."""


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
    """Merge the hits of several stores, each best first; every hit keeps its score.

    Stores' scores cannot be compared, so the budget is filled rank by rank: the best of each store, then the second.
    """
    ranked = _by_rank(found)
    kept, cut = _without_twins(ranked) if policy.dedupe else (list(ranked), [])
    shown, over = _within_budget(kept, policy)
    grouped = _grouped(shown)
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
    language = policy.language
    origins = [origin_mark(hit.item, policy.reader, language) if policy.origins else "" for hit in hits]
    return [
        stale_mark(hit, language) + origin + _dated_text(hit, language)
        for origin, hit in zip(origins, hits, strict=True)
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


def stale_mark(hit: Hit, language: Language) -> str:
    """Return the mark of a hit that may no longer hold; empty for any other."""
    return _STALE[language].format(reason=hit.stale) if hit.stale else ""
