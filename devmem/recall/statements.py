"""Statements of one subject in the block: shown together, in the order of time, the earlier ones marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from devmem.model.results import Hit
from devmem.model.side_labels import Language
from devmem.recall.render import Shown
from devmem.search.filters import event_key

_EARLIER: Final[dict[Language, tuple[str, str]]] = {
    "en": ("(earlier) ", "(earlier, {day}) "),
    "zh": ("(较早)", "(较早,{day})"),
}
"""Mark of a text that begins with its day already, and of one that does not."""


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
        day = f"{datetime.fromtimestamp(hit.item.created_at, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        # Not a day of the calendar, as with milliseconds in place of seconds.
        return plain
    return with_day.format(day=day)
