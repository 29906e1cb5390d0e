"""The terms of a passage in the form that the database keeps."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from devmem.text.analysis import STOP_WORDS, terms


@lru_cache(maxsize=1 << 17)
def term_hash(term: str) -> int:
    """Return the 64-bit hash of a term."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTerms:
    """The terms of one passage."""

    hashes: bytes
    """8 bytes for each distinct term, little-endian."""
    counts: bytes
    """1 byte for each distinct term: number of occurrences, at most 255."""
    length: int
    """Number of terms, without stop words."""


def encode_terms(text: str) -> EncodedTerms:
    """Analyse a text for the index."""
    counted = Counter(terms(text))
    length = sum(count for term, count in counted.items() if term not in STOP_WORDS)
    hashes = np.array([*map(term_hash, counted)], dtype="<u8")
    counts = bytes(counted.values()) if max(counted.values(), default=0) < 256 else _clipped(counted.values())
    return EncodedTerms(hashes=hashes.tobytes(), counts=counts, length=length)


def _clipped(counts: Iterable[int]) -> bytes:
    return bytes(min(count, 255) for count in counts)
