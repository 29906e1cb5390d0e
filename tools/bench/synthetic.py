"""Made-up memories with the statistics of real ones: words by Zipf's law, vectors in clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from devmem.stores import Vector

_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprstvz"

BLOCK: Final = 10_000
"""Number of memories that are generated at a time."""
_TOPICS, _SUBTOPICS = 64, 4_096
_SUBTOPIC_SHARE, _OWN_SHARE = 0.8, 0.8
"""Beside the topic's 1: two memories of a subtopic have a cosine of about 0.72, of a topic 0.44, as related sentences
have by MiniLM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Texts and their embeddings."""

    texts: list[str]
    vectors: Vector
    """Unit rows, shape (len(texts), dimension)."""


def make_corpus(size: int, *, dimension: int = 384, words: int = 30, seed: int = 7) -> Corpus:
    """Make `size` texts of about `words` words, and vectors around 64 centres with as much noise as the centre."""
    rng = np.random.default_rng(seed)
    vocabulary = _vocabulary(20_000, rng)
    chance = 1 / np.arange(1, len(vocabulary) + 1)
    lengths = rng.integers(words // 2, words * 3 // 2, size)
    drawn = rng.choice(vocabulary, int(lengths.sum()), p=chance / chance.sum())
    ends = np.cumsum(lengths)
    texts = [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    centres = rng.standard_normal((64, dimension))
    vectors = centres[rng.integers(0, 64, size)] + rng.standard_normal((size, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Corpus(texts=texts, vectors=vectors.astype(np.float32))


class Blocks:
    """Memories in reproducible blocks, so that a million need not be in memory at once."""

    def __init__(self, *, dimension: int = 384, words: int = 30, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self._seed, self._words = seed, words
        self._vocabulary = np.array(_vocabulary(20_000, rng))
        chance = 1 / np.arange(1, len(self._vocabulary) + 1)
        self._chance = chance / chance.sum()
        topics = rng.standard_normal((_TOPICS, dimension))
        own = rng.standard_normal((_SUBTOPICS, dimension))
        self._centres = topics[rng.integers(0, _TOPICS, _SUBTOPICS)] + _SUBTOPIC_SHARE * own

    def block(self, number: int) -> Corpus:
        """Make `BLOCK` memories."""
        rng = np.random.default_rng([self._seed, number])
        lengths = rng.integers(self._words // 2, self._words * 3 // 2, BLOCK)
        drawn = rng.choice(self._vocabulary, int(lengths.sum()), p=self._chance)
        ends = np.cumsum(lengths)
        texts = [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        vectors = self._centres[rng.integers(0, _SUBTOPICS, BLOCK)]
        vectors = vectors + _OWN_SHARE * rng.standard_normal(vectors.shape)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Corpus(texts=texts, vectors=vectors.astype(np.float32))


def _vocabulary(size: int, rng: np.random.Generator) -> list[str]:
    """Draw distinct words; `integers` draws what `choice` of the letters would, at a quarter of the time."""
    words: dict[str, None] = {}
    draw, consonants, vowels = rng.integers, len(_CONSONANTS), len(_VOWELS)
    while len(words) < size:
        syllables = [_CONSONANTS[draw(consonants)] + _VOWELS[draw(vowels)] for _ in range(draw(1, 4))]
        words["".join(syllables) + "n"] = None
    return list(words)
