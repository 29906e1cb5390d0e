"""Made-up memories with the statistics of real ones: words by Zipf's law, vectors in clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmem import Vector

_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprstvz"


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


def _vocabulary(size: int, rng: np.random.Generator) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < size:
        syllables = rng.integers(1, 4)
        words["".join(rng.choice(list(_CONSONANTS)) + rng.choice(list(_VOWELS)) for _ in range(syllables)) + "n"] = None
    return list(words)
