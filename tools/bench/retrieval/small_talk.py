"""Small talk around the questions of a data set, as users write it to agents."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tools.bench.retrieval.dataset import Dataset

_SEED: Final = 5
_WORDS: Final = range(6, 26)
"""Number of words of a line."""


def lines_of(dataset: Dataset) -> list[str]:
    """Return the texts that pass as a line of small talk: of some length, and no question."""
    items = (item for haystack in dataset.haystacks for item in haystack.items)
    texts = (item.content_summary.removeprefix(f"{item.metadata.get('speaker')}: ") for item in items)
    lines = (re.sub(r"\s+(?=[.,!?'’])|``|''", "", text).strip() for text in texts)
    return [line for line in lines if len(line.split()) in _WORDS and "?" not in line]


def with_small_talk(dataset: Dataset, lines: Sequence[str]) -> Dataset:
    """Put two lines and "By the way," before every question, always the same ones.

    Raises:
        ValueError: there are too few lines.
    """
    if len(lines) < 2:
        raise ValueError("--small-talk: the data set has no two lines of 6 to 25 words that are no questions")
    chosen = random.Random(_SEED)

    def noisy(text: str) -> str:
        before = (line if line[-1] in ".!" else f"{line}." for line in chosen.sample(lines, 2))
        return f"{' '.join(before)} By the way, {text}"

    return replace(
        dataset,
        haystacks=tuple(
            replace(haystack, questions=tuple(replace(one, text=noisy(one.text)) for one in haystack.questions))
            for haystack in dataset.haystacks
        ),
    )
