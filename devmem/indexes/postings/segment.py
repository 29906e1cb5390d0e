"""Immutable postings: for every term the positions of the texts that it occurs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.postings.impacts import Codes, Impacts, impact_table
from devmem.indexes.top_k import Positions, Scores

Docs = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
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
        """Add the term's contribution to the score of each position that it occurs at; see `PostingList`."""
        # `ufunc.at` reads and writes each row once; a row occurs once in a list.
        np.add.at(scores[self.first :], self.docs, idf * table.take(self.codes))

    def fill(self, found: Scores, positions: Positions, idf: np.float32, table: Impacts) -> None:
        """Set the term's contribution to the score of those of the positions that it occurs at."""
        wanted = positions - self.first
        places = np.minimum(np.searchsorted(self.docs, wanted.astype(np.int32)), len(self.docs) - 1)
        there = self.docs[places] == wanted
        found[there] = idf * table.take(self.codes[places[there]])


class Segment:
    """The postings of a range of positions, sorted by term and then by position."""

    def __init__(
        self, terms: NDArray[np.uint64], starts: NDArray[np.int64], docs: Docs, codes: Codes, mean_length: float
    ) -> None:
        self._terms, self._starts, self.docs, self._codes = terms, starts, docs, codes
        self._mean_length = mean_length
        table = impact_table(mean_length)
        self._peaks: Impacts = np.maximum.reduceat(table[codes], starts[:-1]) if len(terms) else np.empty(0, np.float32)

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], docs: Docs, codes: Codes, mean_length: float) -> Segment:
        """Sort postings, given in the order of their positions.

        `mean_length` is the present mean of the texts' lengths, with which the upper bounds are made.
        """
        order = np.argsort(hashes, kind="stable")
        terms, firsts = np.unique(hashes[order], return_index=True)
        starts = np.append(firsts, len(hashes)).astype(np.int64)
        return cls(terms, starts, docs[order], codes[order], mean_length)

    def find(self, term: int, mean_length: float) -> Postings | None:
        """Return the postings of a term at a mean length of texts; None when it does not occur."""
        at = int(np.searchsorted(self._terms, np.uint64(term)))
        if at == len(self._terms) or int(self._terms[at]) != term:
            return None
        part = slice(int(self._starts[at]), int(self._starts[at + 1]))
        # An impact grows at most as much as the mean length.
        growth = max(1.0, mean_length / max(self._mean_length, 1e-9))
        return Postings(docs=self.docs[part], codes=self._codes[part], peak=float(self._peaks[at]) * growth)

    def followed_by(self, later: Segment, mean_length: float) -> Segment:
        """Return this segment joined with one of later positions."""
        places = np.minimum(np.searchsorted(self._terms, later._terms), max(len(self._terms) - 1, 0))
        known = self._terms[places] == later._terms if len(self._terms) else np.zeros(len(later._terms), np.bool_)
        # A known term's postings go behind those that are here; a new one's to where the next term begins.
        before = np.searchsorted(self._terms, later._terms, side="right")
        points = np.repeat(self._starts[before], np.diff(later._starts))
        docs = np.insert(self.docs, points, later.docs)
        codes = np.insert(self._codes, points, later._codes)
        terms = np.insert(self._terms, before[~known], later._terms[~known])
        counts = np.insert(np.diff(self._starts), before[~known], 0)
        counts[np.searchsorted(terms, later._terms)] += np.diff(later._starts)
        return Segment(terms, _starts(counts), docs, codes, mean_length)

    def without(self, live: NDArray[np.bool_], mean_length: float) -> Segment:
        """Return the segment without the positions that are not live, the others renumbered."""
        renumbered = np.cumsum(live, dtype=np.int32) - np.int32(1)
        kept = live[self.docs]
        before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        counts = np.diff(before[self._starts])
        terms = self._terms[counts > 0]
        docs = renumbered[self.docs[kept]]
        return Segment(terms, _starts(counts[counts > 0]), docs, self._codes[kept], mean_length)

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        return {
            "terms": self._terms.astype("<u8"),
            "starts": self._starts.astype("<i8"),
            "docs": self.docs.astype("<i4"),
            "codes": self._codes.astype("<u2"),
        }

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]], mean_length: float) -> Segment:
        """Return the segment that `parts` was made of; the arrays are not copied.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        terms, starts, docs, codes = (parts[name] for name in ("terms", "starts", "docs", "codes"))
        if len(starts) != len(terms) + 1 or len(docs) != len(codes) or starts[-1] != len(docs):
            raise ValueError("its postings are not those of its terms")
        return cls(terms, starts, docs, codes, mean_length)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
