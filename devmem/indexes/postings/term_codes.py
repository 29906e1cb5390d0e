"""The terms of an item as the database keeps them."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from devmem.text.analysis import STOP_WORDS, terms


@lru_cache(maxsize=1 << 17)
def term_hash(term: str) -> int:
    """Give the 64 bits that stand for a term."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTerms:
    """The terms of one item as the database keeps them."""

    hashes: bytes
    """8 bytes a distinct term, little-endian."""
    counts: bytes
    """1 byte a distinct term: how often it occurs, at most 255."""
    length: int
    """Terms in all, without stop words."""


def encode_terms(text: str) -> EncodedTerms:
    """Analyse a text for the index."""
    counted = Counter(terms(text))
    length = sum(count for term, count in counted.items() if term not in STOP_WORDS)
    hashes = np.fromiter((term_hash(term) for term in counted), dtype="<u8", count=len(counted))
    counts = np.fromiter((min(n, 255) for n in counted.values()), dtype=np.uint8, count=len(counted))
    return EncodedTerms(hashes=hashes.tobytes(), counts=counts.tobytes(), length=length)
