"""Parts of stored texts as the page shows them: marked where a question met them, compared, and never as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

from devmem.text.analysis import mostly_unspaced, query_terms, terms
from devmem.text.display import visible
from devmem.web.nearness import folded

LONGEST: Final = 20_000
"""Characters of one text on a page; the whole is a download."""
_WORD: Final = re.compile(r"\w+")
_TOKENS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_HIT: Final = b"\2"
_NEAR: Final = b"\1"
_STRETCHES: Final = re.compile(b"\x00+|\x01+|\x02+")
_COVERED: Final = re.compile(b"\x01+")
_MOST_TOKENS: Final = 4_000
"""Tokens of texts that are compared word by word; longer ones are compared by lines."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text."""

    text: str
    mark: Literal["", "hit", "near", "ins", "del"] = ""


def shown(text: str) -> str:
    """Return a text for a page: characters that steer the order of a line are visible, and its end may be cut."""
    return visible(text[:LONGEST]) + ("…" if len(text) > LONGEST else "")


def marked(text: str, question: str, near: frozenset[str] = frozenset()) -> list[Piece]:
    """Return a text in pieces; those are marked whose words the question has, in any form that the search equates.

    Other words of `near`, which are folded, get a mark of their own.
    """
    cut = shown(text)
    marks = bytearray(len(cut))
    for start, end in _near(cut, near):
        marks[start:end] = _NEAR * (end - start)
    for start, end in _met(cut, frozenset(query_terms(question))):
        marks[start:end] = _HIT * (end - start)
    return [
        Piece(cut[run.start() : run.end()], "hit" if run[0].startswith(_HIT) else "near" if any(run[0]) else "")
        for run in _STRETCHES.finditer(marks)
    ]


def _near(text: str, words: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of words; in scripts without spaces, of runs of them."""
    for word in _WORD.finditer(text) if words else ():
        if folded(word[0]) in words:
            yield word.span()
        elif mostly_unspaced(word[0]):
            yield from _runs(text, word.start(), word.end(), words)


def _met(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of words that were asked for; in scripts without spaces, of runs of terms."""
    for word in _WORD.finditer(text) if wanted else ():
        if len(terms(word[0])) <= 1:
            if wanted.intersection(terms(word[0])):
                yield word.span()
        else:
            yield from _runs(text, word.start(), word.end(), wanted)


def _runs(text: str, start: int, end: int, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a text between two places that terms of the question cover; terms may overlap."""
    covered = bytearray(end - start)
    for term in wanted:
        at = text.find(term, start, end) if len(term) > 1 else -1
        while at >= 0:
            covered[at - start : at - start + len(term)] = b"\1" * len(term)
            at = text.find(term, at + 1, end)
    yield from ((start + run.start(), start + run.end()) for run in _COVERED.finditer(covered))


def compared(before: str, after: str) -> list[Piece]:
    """Return two texts as one, with what was taken out and what was put in."""
    old, new = _split(before), _split(after)
    if len(old) + len(new) > _MOST_TOKENS:
        old, new = shown(before).splitlines(keepends=True), shown(after).splitlines(keepends=True)
    pieces: list[Piece] = []
    for operation, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if operation == "equal":
            pieces.append(Piece("".join(old[start:end])))
            continue
        pieces += [Piece("".join(old[start:end]), "del")] if end > start else []
        pieces += [Piece("".join(new[new_start:new_end]), "ins")] if new_end > new_start else []
    return pieces


def _split(text: str) -> Sequence[str]:
    return _TOKENS.findall(shown(text))
