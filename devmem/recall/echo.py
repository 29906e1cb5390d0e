"""Recognising an answer that only repeats what was recalled, so that it is not stored again as new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from devmem.model.side_labels import NAMES
from devmem.text.patterns import lazy_pattern
from devmem.text.sentences import split_sentences

_ECHO_SHARE: Final = 0.8
_DATE: Final = lazy_pattern(r"\[\d{4}-\d\d-\d\d\]")
_NO_WORD: Final = lazy_pattern(r"\W+")
_CLAUSE_END: Final = lazy_pattern(r"(?<=[;；\n])")
_NUMBER: Final = lazy_pattern(r"^\W*\d+[.)]\s+")
_LABEL: Final = lazy_pattern(r"^\W*(\w[\w ]{0,30})[:：]")
"""A label in front of a clause: a speaker, or `Output:`."""


class _Known:
    """The recalled texts as clauses; only whole clauses count, since "do not deploy" contains "deploy"."""

    def __init__(self, recalled: Iterable[str]) -> None:
        self._labels: set[str] = set()
        self._clauses: set[str] = set()
        for clause in (clause for text in recalled for clause in _clauses(text)):
            self._clauses.add(_words(clause))
            if label := _LABEL.match(clause):
                self._labels.add(_words(label[1]))
                self._clauses.add(_words(clause[label.end() :]))

    def holds(self, clause: str) -> bool:
        """Whether a clause was recalled word for word, its list number and its label aside."""
        plain = _NUMBER.sub("", clause)
        label = _LABEL.match(plain)
        if label and _words(label[1]) in self._labels | NAMES:
            plain = plain[label.end() :]
        return _words(clause) in self._clauses or _words(plain) in self._clauses


def is_echo(answer: str, recalled: Iterable[str]) -> bool:
    """Whether at least four fifths of the answer's clauses, by length, were recalled word for word."""
    known = _Known(recalled)
    total = repeated = 0
    for clause in _clauses(answer):
        length = len(_words(clause))
        total += length
        repeated += length if length and known.holds(clause) else 0
    return total > 0 and repeated >= _ECHO_SHARE * total


def says_nothing_new(text: str, recalled: Iterable[str]) -> bool:
    """Whether each sentence of the text is a question or was recalled word for word."""
    known = _Known(recalled)
    told = (sentence for sentence in split_sentences(text) if not sentence.rstrip().endswith(("?", "？")))
    return all(known.holds(clause) for sentence in told for clause in _clauses(sentence) if _words(clause))


def _clauses(text: str) -> Iterator[str]:
    for sentence in split_sentences(_DATE.sub(" ", text)):
        yield from _CLAUSE_END.split(sentence)


def _words(text: str) -> str:
    return " ".join(_NO_WORD.sub(" ", text.casefold()).split())
