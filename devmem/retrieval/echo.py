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


def is_echo(answer: str, recalled: Iterable[str]) -> bool:
    """Say whether four fifths of the answer's sentences, by length, stand in the recalled texts word for word."""
    # Between blanks, so that "yes" does not stand in "yesterday".
    known = "".join(f" {_words(text)} \n" for text in recalled)
    if not known:
        return False
    total = repeated = 0
    for sentence in split_sentences(answer):
        words = _words(sentence)
        total += len(words)
        repeated += len(words) if f" {words} " in known else 0
    return total > 0 and repeated >= _ECHO_SHARE * total


def only_asks(text: str) -> bool:
    """Say whether the text is questions and nothing else."""
    sentences = [sentence.strip() for sentence in split_sentences(text) if sentence.strip()]
    return bool(sentences) and all(sentence.endswith(("?", "？")) for sentence in sentences)
