"""Speakers whom a question names, and those of them whom it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from devmem.text.analysis import STOP_WORDS, terms
from devmem.text.patterns import lazy_pattern

_ROLES: Final = frozenset("user assistant system human ai bot agent tool".split())
"""Speakers that are roles, not names: a question that has such a word need not mean who spoke."""
_JOINS: Final = lazy_pattern(r"(?:['’]s?)?[\s,、]*(?:(?:and|or|&|和|与|與|及|或)(?:\sboth)?)?[\s,]*", re.IGNORECASE)
"""Text between two names that are named together."""
_GREETING: Final = lazy_pattern(r"\W*(?:(?:hey|hi|hello|dear|ok|okay|well|so|嗨|你好)\b\W*)?", re.IGNORECASE)
"""Text before the name of somebody who is addressed."""
_AFTER_ADDRESS: Final = lazy_pattern(r"\s*[,:!\uff0c\uff1a\uff01]")
_WORD: Final = lazy_pattern(r"\w+(?:[.\-'’]\w+)*")


def mentioned(query: str, speakers: Iterable[str]) -> frozenset[str]:
    """Return the speakers that the query names, by the whole name or by its first word."""
    words = set(terms(query))
    return frozenset(name for name in speakers if _is_named(name, words))


def subjects(query: str, named: Iterable[str]) -> frozenset[str]:
    """Return whom a query is about: the first that it names, and those who are named together with them.

    "What did Ann tell Ben?" asks for what Ann said; "What do Ann and Ben like?" for what both said; "Ann, what did Ben
    say?" addresses Ann.

    Args:
        query: the question.
        named: the speakers that it names.
    """
    places = _without_address(query, sorted((*_place(query, name), name) for name in named))
    found: set[str] = set()
    last = 0
    for start, end, name in places:
        if found and start >= last and not _JOINS.fullmatch(query[last:start]):
            break
        found.add(name)
        last = max(last, end)
    return frozenset(found)


def _without_address(query: str, places: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the places of names without that of somebody who is only addressed before others are named."""
    if len(places) < 2:
        return places
    (start, end, _), (following, _, _) = places[:2]
    addressed = _GREETING.fullmatch(query[:start]) and _AFTER_ADDRESS.match(query[end:])
    joined = following < end or _JOINS.fullmatch(query[end:following])
    return places[1:] if addressed and not joined else places


def _is_named(name: str, words: set[str]) -> bool:
    parts = terms(name)
    if name.casefold() in _ROLES or all(part in STOP_WORDS for part in parts):
        # Somebody called "Me" or "Will" cannot be told from the word.
        return False
    # A single character of a script without spaces is a word of its own: the whole name has to be there.
    first = parts[0]
    by_first = len(first) > 1 and first.isascii() and first not in STOP_WORDS and first in words
    return by_first or all(part in words for part in parts)


def _place(query: str, name: str) -> tuple[int, int]:
    """Return start and end of a name in a query, or of the first word that it is named by."""
    for text in (name, name.split()[0]):
        found = re.search(rf"(?<![a-z]){re.escape(text)}(?![a-z])", query, re.IGNORECASE)
        if found:
            return found.span()
    # Written in another way: "Dr Who" for "Dr. Who", "Chris" for "@chris".
    first = terms(name)[0]
    return next((word.span() for word in _WORD.finditer(query) if first in terms(word[0])), (len(query), len(query)))
