"""Hits that state the same of one subject with another value, as before and after a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Final

from devmem.model.results import Hit
from devmem.search.filters import event_key
from devmem.text.analysis import STOP_WORDS, mostly_unspaced, terms
from devmem.text.patterns import lazy_pattern
from devmem.text.statements import is_update

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


def with_related(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the hits, each with the ids of those that are an older or a newer statement of the same.

    Only hits that happened at different times are compared, and nothing is reordered: that a text resembles another one
    does not make it untrue.
    """
    related: dict[str, list[str]] = {}
    words = {hit.item.id: _words(hit.item.content_summary[:_LONGEST]) for hit in hits[:_COMPARED]}
    for one, other in combinations(hits[:_COMPARED], 2):
        if not _share_enough(words[one.item.id], words[other.item.id]):
            continue
        older, newer = sorted((one.item, other.item), key=event_key)
        if event_key(older) < event_key(newer) and is_update(older.content_summary, newer.content_summary):
            related.setdefault(older.id, []).append(newer.id)
            related.setdefault(newer.id, []).append(older.id)
    if not related:
        return tuple(hits)
    return tuple(replace(hit, related=tuple(related.get(hit.item.id, ()))) for hit in hits)


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
