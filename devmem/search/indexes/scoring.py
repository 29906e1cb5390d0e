"""BM25 over the postings of a query's terms: of every row, of some rows, or of the best ones only.

The best ones are found by MaxScore (Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995), a whole
list at a time: once the common terms cannot lift a row among the best any more, they are looked up in the rows that
still can be, instead of being added to all. Terms are always added in the same order, the rarest first, so that a row
has the same score, to the last bit, in each of the three ways.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.search.indexes.columns import (
    Positions,
    Scores,
    best_positions,
    computed_once,
    group_starts,
    lower_bound,
)
from devmem.text.analysis import STOP_WORDS, terms

K1: Final = 0.9
B: Final = 0.4
"""The defaults of Anserini: memories are short, and length matters less than for articles (on LoCoMo's turns recall@10
is 2 points higher than with 1.2 and 0.75)."""

Codes = NDArray[np.uint16]
Docs = NDArray[np.int32]
Hashes = NDArray[np.uint64]
Impacts = NDArray[np.float32]

_LENGTH_BITS: Final = 10
_LENGTHS: Final = 1 << _LENGTH_BITS
_EXACT_LENGTHS: Final = 256
_LENGTHS_AN_OCTAVE: Final = 32
_COUNTS: Final = 64
_EXACT_COUNTS: Final = 32
_COUNTS_AN_OCTAVE: Final = 10


def posting_codes(counts: NDArray[np.integer[Any]], lengths: NDArray[np.floating[Any]]) -> Codes:
    """Return the codes of counts from 1 to 255 and of lengths, shape (n,) both."""
    many = _EXACT_COUNTS + _COUNTS_AN_OCTAVE * np.log2(np.maximum(counts, 1) / _EXACT_COUNTS)
    count = np.where(counts <= _EXACT_COUNTS, np.maximum(counts, 1) - 1, np.minimum(many, _COUNTS - 1))
    long = _EXACT_LENGTHS + _LENGTHS_AN_OCTAVE * np.log2(np.maximum(lengths, 1) / _EXACT_LENGTHS)
    length = np.where(lengths < _EXACT_LENGTHS, lengths, np.minimum(long, _LENGTHS - 1))
    return np.asarray((count.astype(np.int32) << _LENGTH_BITS) | length.astype(np.int32), dtype=np.uint16)


@lru_cache(maxsize=16)
def impact_table(mean_length: float) -> Impacts:
    """Return the impact of each code at a mean length of texts; not to be changed.

    Several databases that are searched together share a mean, which changes with the next write.
    """
    count, length = np.arange(_COUNTS, dtype=np.float64), np.arange(_LENGTHS, dtype=np.float64)
    many = _EXACT_COUNTS * 2 ** ((count - _EXACT_COUNTS + 0.5) / _COUNTS_AN_OCTAVE)
    long = _EXACT_LENGTHS * 2 ** ((length - _EXACT_LENGTHS + 0.5) / _LENGTHS_AN_OCTAVE)
    counts = np.where(count < _EXACT_COUNTS, count + 1, many)[:, np.newaxis]
    lengths = np.where(length < _EXACT_LENGTHS, length, long)[np.newaxis, :]
    norm = K1 * (1 - B + B * lengths / max(mean_length, 1e-9))
    table = np.asarray(counts * (K1 + 1) / (counts + norm), dtype=np.float32).reshape(-1)
    table.flags.writeable = False
    return table


_LOOK_UP_BELOW: Final = 40
"""Looking up a row in a list costs as much as adding this many of its postings."""
_SLACK: Final = 1e-4
"""Relative precision of sums of float32: rows that close to the threshold stay candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermPostings:
    """The postings of one term in one segment."""

    docs: Docs
    """Positions, ascending, counted from `first` on."""
    codes: Codes
    peak: float
    """Upper bound of the impacts."""
    first: int = 0

    @property
    def count(self) -> int:
        """Number of postings."""
        return len(self.docs)

    def add_to(self, scores: Scores, idf: np.float32, table: Impacts) -> None:
        """Add the term's contribution to the score of each position that it occurs at."""
        # `ufunc.at` reads and writes each row once; a row occurs once in a list.
        np.add.at(scores[self.first :], self.docs, idf * table.take(self.codes))

    def fill(self, found: Scores, positions: Positions, idf: np.float32, table: Impacts) -> None:
        """Set the term's contribution to the score of those of the positions that it occurs at."""
        wanted = positions - self.first
        places = np.minimum(np.searchsorted(self.docs, wanted.astype(np.int32)), len(self.docs) - 1)
        there = self.docs[places] == wanted
        found[there] = idf * table.take(self.codes[places[there]])


@dataclass(frozen=True, kw_only=True)
class TermList:
    """The postings of one term of the query."""

    parts: Sequence[TermPostings]
    """Of ascending positions."""
    table: Impacts
    texts: int
    """Number of texts that are searched."""
    frequency: int
    """Number of these that the term occurs in."""
    weight: float = 1.0
    """Factor of the term's idf."""

    @computed_once
    def idf(self) -> np.float32:
        """Inverse document frequency, never negative, times the weight."""
        return np.float32(self.weight * np.log1p((self.texts - self.frequency + 0.5) / (self.frequency + 0.5)))

    @computed_once
    def bound(self) -> float:
        """Upper bound of the term's contribution to the score of any row."""
        return float(self.idf) * max((part.peak for part in self.parts), default=0.0)

    def add_to(self, scores: Scores) -> None:
        """Add the term's contribution to the score of each row that it occurs in."""
        for part in self.parts:
            part.add_to(scores, self.idf, self.table)

    def at(self, positions: Positions) -> Scores:
        """Return the term's contribution to the score of some rows."""
        found = np.zeros(len(positions), dtype=np.float32)
        for part in self.parts:
            part.fill(found, positions, self.idf, self.table)
        return found


def scores_at(lists: Sequence[TermList], positions: Positions) -> Scores:
    """Return the scores of some rows."""
    total = np.zeros(len(positions), dtype=np.float32)
    for one in lists:
        total += one.at(positions)
    return total


def are_few(lists: Sequence[TermList], rows: int) -> bool:
    """Whether looking this many rows up in the lists is cheaper than adding the lists to all rows."""
    return rows * len(lists) * _LOOK_UP_BELOW < sum(part.count for one in lists for part in one.parts)


def best_of(lists: Sequence[TermList], scores: Scores, limit: int) -> tuple[Positions, int]:
    """Find the positions with the highest scores above 0.

    Args:
        lists: the terms, the rarest first.
        scores: 0, and -inf for rows that are excluded; the terms are added to it, one after the other.
        limit: maximum number of positions.

    Returns:
        the positions, best first, the later first among equals; and the number of terms that were added to the scores.
    """
    bounds = np.append(np.cumsum([one.bound for one in reversed(lists)])[::-1], 0.0)
    for number, one in enumerate(lists):
        one.add_to(scores)
        rest, left = lists[number + 1 :], float(bounds[number + 1])
        if not rest or left > bounds[0] - left:
            continue
        threshold = lower_bound(scores, limit) * (1 - _SLACK)
        if threshold > left * (1 + _SLACK):
            candidates = np.flatnonzero(scores > threshold - left * (1 + _SLACK))
            if are_few(rest, len(candidates)):
                return _best_candidates(rest, scores, candidates, limit), number + 1
    return best_positions(scores, limit), len(lists)


def _best_candidates(rest: Sequence[TermList], scores: Scores, candidates: Positions, limit: int) -> Positions:
    found = scores[candidates]
    for one in rest:
        found += one.at(candidates)
    return candidates[best_positions(found, limit)]


TERM_BITS: Final = 40
"""Lower bits of a term's hash by which indexes in memory tell terms apart, and which SQLite files keep.

One in a million terms has the same bits as one of a million others, and is then found where that one is, too."""


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
    counts = bytes(min(count, 255) for count in counted.values())
    return EncodedTerms(hashes=hashes.tobytes(), counts=counts, length=length)


def decode_terms(
    hashes: Iterable[bytes], counts: Sequence[bytes], lengths: NDArray[np.float32], first: int = 0
) -> tuple[Hashes, Docs, Codes]:
    """Return the postings of some passages, in their order: hash of the term, position of the passage, and code.

    Of each passage the hashes and counts of `EncodedTerms` are given, and the length; the first is at position `first`.
    """
    each = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    joined = np.frombuffer(b"".join(counts), dtype=np.uint8)
    docs = np.repeat(np.arange(first, first + len(counts), dtype=np.int32), each)
    terms = np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)
    return terms, docs, posting_codes(joined, np.repeat(lengths, each))


def sorted_by_term(hashes: Hashes, docs: Docs, codes: Codes) -> tuple[Hashes, NDArray[np.int64], Docs, Codes]:
    """Sort postings by term; return the terms, ascending, the bounds of their postings, and the sorted columns."""
    order = np.argsort(hashes, kind="stable")
    ascending = hashes[order]
    starts = group_starts(ascending)
    return ascending[starts], np.append(starts, len(hashes)).astype(np.int64), docs[order], codes[order]
