"""Recognising an answer that only repeats what was recalled, so that it is not stored again as new."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from devmem.text.sentences import split_sentences

_ECHO_SHARE: Final = 0.8
_NOISE: Final = re.compile(r"\[\d{4}-\d\d-\d\d\]|\W+")


def _words(text: str) -> str:
    return " ".join(_NOISE.sub(" ", text.casefold()).split())


def _known(recalled: Iterable[str]) -> str:
    # Between blanks, so that "yes" does not stand in "yesterday".
    return "".join(f" {_words(text)} \n" for text in recalled)


def is_echo(answer: str, recalled: Iterable[str]) -> bool:
    """Say whether four fifths of the answer's sentences, by length, stand in the recalled texts word for word."""
    known = _known(recalled)
    total = repeated = 0
    for words in map(_words, split_sentences(answer)):
        total += len(words)
        repeated += len(words) if f" {words} " in known else 0
    return total > 0 and repeated >= _ECHO_SHARE * total


def says_nothing_new(text: str, recalled: Iterable[str]) -> bool:
    """Say whether each of the text's sentences is a question, or stands in the recalled texts word for word."""
    known = _known(recalled)
    for sentence in split_sentences(text):
        words = _words(sentence)
        if words and not sentence.rstrip().endswith(("?", "？")) and f" {words} " not in known:
            return False
    return True
