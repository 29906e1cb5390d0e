"""The full-text index: postings in memory, ranked with BM25 over every match.

Its input is what the database keeps of each item's text: the hashes and counts of its terms (`encode_terms`), so
opening a collection tokenizes nothing. BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond" (2009), with the non-negative idf of Lucene.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.vectors import Rows
from devmem.text.analysis import STOP_WORDS, query_terms, terms

K1: Final = 0.9
B: Final = 0.4
"""What Anserini takes by default: memories are short, and length says less about them than about articles (on LoCoMo's
turns recall@10 is 2 points higher than with 1.2 and 0.75)."""


@lru_cache(maxsize=1 << 17)
def _hash(term: str) -> int:
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
    hashes = np.fromiter((_hash(term) for term in counted), dtype="<u8", count=len(counted))
    counts = np.fromiter((min(n, 255) for n in counted.values()), dtype=np.uint8, count=len(counted))
    return EncodedTerms(hashes=hashes.tobytes(), counts=counts.tobytes(), length=length)


class PostingsIndex:
    """Postings over rows that are known by their number in the database. Not thread-safe: its owner holds a lock.

    New rows go to a small tail, which is merged into the sorted base when it has grown to a tenth of it.
    """

    def __init__(self) -> None:
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._lengths: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self._alive: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._used = 0
        self._hashes: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._docs: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._counts: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._tail: dict[int, tuple[list[int], list[int]]] = {}
        self._tail_entries: list[tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint8]]] = []
        self._merged = 0

    def __len__(self) -> int:
        return int(self._alive[: self._used].sum())

    def add(self, rows: Sequence[int], encoded: Sequence[EncodedTerms]) -> None:
        """Append rows, in ascending order and above those that are there."""
        start = self._used
        self._grow(start + len(rows))
        self._rows[start : self._used] = rows
        self._lengths[start : self._used] = [entry.length for entry in encoded]
        self._alive[start : self._used] = True
        per_row = np.fromiter((len(entry.counts) for entry in encoded), dtype=np.int64, count=len(encoded))
        hashes = np.frombuffer(b"".join(entry.hashes for entry in encoded), dtype="<u8").astype(np.uint64)
        counts = np.frombuffer(b"".join(entry.counts for entry in encoded), dtype=np.uint8)
        docs = np.repeat(np.arange(start, self._used, dtype=np.int32), per_row)
        self._tail_entries.append((hashes, docs, counts))
        if self._used - self._merged > max(1024, self._merged // 10):
            self._merge()
            return
        for term, doc, count in zip(hashes.tolist(), docs.tolist(), counts.tolist(), strict=True):
            tail_docs, tail_counts = self._tail.setdefault(term, ([], []))
            tail_docs.append(doc)
            tail_counts.append(count)

    def remove(self, rows: Iterable[int]) -> None:
        """Drop the rows; those that are not in the index are passed over."""
        positions = self._positions(np.fromiter(rows, dtype=np.int64))
        self._alive[positions[positions >= 0]] = False

    def scores(self, text: str, allowed: Rows | None = None) -> NDArray[np.float32] | None:
        """Score every row for the text; give None when no word of it occurs.

        Returns:
            BM25 by position, shape (positions,); 0 for rows without a match, deleted or not allowed.
        """
        if not self._used:
            return None
        total = np.zeros(self._used, dtype=np.float32)
        lengths = self._lengths[: self._used]
        norm = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1e-9))
        matched = False
        for term in query_terms(text):
            for docs, counts, idf in self._postings(_hash(term)):
                total[docs] += idf * counts * (K1 + 1) / (counts + norm[docs])
                matched = True
        if not matched:
            return None
        total[~self._alive[: self._used]] = 0
        if allowed is not None:
            keep = self._positions(allowed)
            masked = np.zeros_like(total)
            masked[keep[keep >= 0]] = total[keep[keep >= 0]]
            total = masked
        return total

    def best(self, scores: NDArray[np.float32], limit: int) -> Rows:
        """Give the rows with the highest scores above 0, best first, the newer one first among equals."""
        found = np.flatnonzero(scores)
        if len(found) > limit:
            border = np.partition(scores[found], len(found) - limit)[len(found) - limit]
            found = found[scores[found] >= border]
        return self._rows[found[np.lexsort((-found, -scores[found]))][:limit]]

    def at(self, scores: NDArray[np.float32], rows: Rows) -> NDArray[np.float64]:
        """Give the scores of some rows; 0 for one that is not there."""
        positions = self._positions(rows)
        return np.where(positions >= 0, scores[positions], 0.0).astype(np.float64)

    def _postings(self, term: int) -> Iterable[tuple[NDArray[np.int32], NDArray[np.float32], float]]:
        start, end = (
            np.searchsorted(self._hashes, np.uint64(term)),
            np.searchsorted(self._hashes, np.uint64(term), side="right"),
        )
        tail = self._tail.get(term, ([], []))
        frequency = int(end - start) + len(tail[0])
        if not frequency:
            return
        idf = float(np.log1p((self._used - frequency + 0.5) / (frequency + 0.5)))
        if end > start:
            yield self._docs[start:end], self._counts[start:end].astype(np.float32), idf
        if tail[0]:
            yield np.array(tail[0], dtype=np.int32), np.array(tail[1], dtype=np.float32), idf

    def _merge(self) -> None:
        parts = [(self._hashes, self._docs, self._counts), *self._tail_entries]
        hashes, docs, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._docs, self._counts = hashes[order], docs[order], counts[order]
        self._tail, self._tail_entries, self._merged = {}, [], self._used

    def _grow(self, used: int) -> None:
        if used > len(self._rows):
            room = max(used, 2 * len(self._rows), 1024)
            self._rows, self._lengths, self._alive = (
                np.resize(self._rows, room),
                np.resize(self._lengths, room),
                np.resize(self._alive, room),
            )
        self._used = used

    def _positions(self, rows: Rows) -> Rows:
        used = self._rows[: self._used]
        if not len(used):
            return np.full(len(rows), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(used, rows), self._used - 1)
        return np.where((used[at] == rows) & self._alive[at], at, -1)
