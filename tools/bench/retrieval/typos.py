"""The questions of a data set as users type them: with a misspelled word, or as a statement."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from string import ascii_lowercase
from typing import Final

from devmem.text.analysis import is_content
from tools.bench.retrieval.dataset import Dataset, Haystack

_SEED: Final = 7
_LEAST_LETTERS: Final = 5
_MARKS: Final = "?,."
_ASKING: Final = re.compile(
    r"^(?:(?:how\s+(?:many|much|long|often|far|old)|what|when|where|who|whom|whose|why|how|which)\b\s*)?(.*?)"
    r"\b(?:did|do|does|is|are|was|were|has|have|had|can|could|will|would|should|might)\b\s*",
    re.IGNORECASE,
)


def as_statements(dataset: Dataset) -> Dataset:
    """Leave out the words that ask: "When did Ann visit the old mill?" is "Ann visit the old mill."."""
    return _with_texts(dataset, lambda text: _ASKING.sub(r"\1", text, count=1).rstrip("? ") + ".")


def with_typos(dataset: Dataset) -> Dataset:
    """Misspell one word of every question that has one in small letters, always in the same way."""
    chosen = random.Random(_SEED)
    return _with_texts(dataset, lambda text: _mistyped(text, chosen))


def _with_texts(dataset: Dataset, change: Callable[[str], str]) -> Dataset:
    def changed(haystack: Haystack) -> Haystack:
        return replace(haystack, questions=tuple(replace(one, text=change(one.text)) for one in haystack.questions))

    return replace(dataset, haystacks=tuple(map(changed, dataset.haystacks)))


def _mistyped(text: str, chosen: random.Random) -> str:
    words = text.split(" ")
    places = [at for at, word in enumerate(words) if _is_content(word)]
    if not places:
        return text
    at = chosen.choice(places)
    core = words[at].rstrip(_MARKS)
    words[at] = _with_typo(core, chosen) + words[at][len(core) :]
    return " ".join(words)


def _is_content(word: str) -> bool:
    core = word.rstrip(_MARKS)
    return len(core) >= _LEAST_LETTERS and core.isascii() and core.isalpha() and core.islower() and is_content(core)


def _with_typo(word: str, chosen: random.Random) -> str:
    """Leave a letter out, double or replace it, or swap it with the next; neither the first nor the last."""
    at = chosen.randrange(1, len(word) - 1)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    kind = chosen.choice(("left out", "doubled", "replaced", "swapped"))
    if kind == "left out":
        return before + after
    if kind == "doubled":
        return before + 2 * letter + after
    if kind == "swapped":
        return before + after[0] + letter + after[1:]
    return before + chosen.choice(ascii_lowercase.replace(letter, "")) + after
