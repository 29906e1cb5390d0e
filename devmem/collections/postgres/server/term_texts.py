"""The terms of some passages, as their rows have them: searched without postings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.postings.impacts import Codes, Impacts, posting_codes
from devmem.indexes.postings.segment import Postings
from devmem.indexes.row_column import Rows

TermRow: TypeAlias = tuple[int, bytes, bytes, int]
"""Passage, hashes, counts and length; see `EncodedTerms`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermTexts:
    """The terms of n passages."""

    passages: Rows
    """In any order, shape (n,)."""
    lengths: NDArray[np.float32]
    """In terms, shape (n,)."""
    hashes: NDArray[np.uint64]
    """Hash of each posting, in the order of the passages."""
    docs: NDArray[np.int32]
    """Place of each posting's passage."""
    codes: Codes

    @classmethod
    def of(cls, rows: Sequence[TermRow]) -> TermTexts:
        """Read rows of the table `passages`."""
        lengths = np.array([row[3] for row in rows], dtype=np.float32)
        each = np.fromiter((len(row[2]) for row in rows), dtype=np.int64, count=len(rows))
        counts = np.frombuffer(b"".join(row[2] for row in rows), dtype=np.uint8)
        return cls(
            passages=np.array([row[0] for row in rows], dtype=np.int64),
            lengths=lengths,
            hashes=np.frombuffer(b"".join(row[1] for row in rows), dtype="<u8").astype(np.uint64),
            docs=np.repeat(np.arange(len(rows), dtype=np.int32), each),
            codes=posting_codes(counts, np.repeat(lengths, each)),
        )

    def where(self, keep: NDArray[np.bool_]) -> TermTexts:
        """Return the passages at some places."""
        if bool(keep.all()):
            return self
        places = np.cumsum(keep, dtype=np.int32) - np.int32(1)
        kept = keep[self.docs]
        return TermTexts(
            passages=self.passages[keep],
            lengths=self.lengths[keep],
            hashes=self.hashes[kept],
            docs=places[self.docs[kept]],
            codes=self.codes[kept],
        )

    def joined(self, others: TermTexts) -> TermTexts:
        """Return these passages, and behind them others."""
        if not len(self.passages) or not len(others.passages):
            return self if len(self.passages) else others
        return TermTexts(
            passages=np.concatenate([self.passages, others.passages]),
            lengths=np.concatenate([self.lengths, others.lengths]),
            hashes=np.concatenate([self.hashes, others.hashes]),
            docs=np.concatenate([self.docs, others.docs + np.int32(len(self.passages))]),
            codes=np.concatenate([self.codes, others.codes]),
        )

    def count_of(self, term: int) -> int:
        """Return the number of passages that a term (hash) occurs in."""
        return int(np.count_nonzero(self.hashes == np.uint64(term)))

    def postings(self, term: int, table: Impacts, first: int = 0) -> Postings | None:
        """Return the postings of a term; None when it does not occur.

        Args:
            term: hash of the term.
            table: impacts by code.
            first: position of the first passage.
        """
        at = np.flatnonzero(self.hashes == np.uint64(term))
        if not len(at):
            return None
        codes = self.codes[at]
        return Postings(docs=self.docs[at] + np.int32(first), codes=codes, peak=float(table[codes].max()))


NO_TEXTS = TermTexts.of([])


def numbers_from(raw: bytes | None, kind: str) -> NDArray[Any]:
    """Return the numbers of a column of bytes; none for NULL."""
    return np.frombuffer(raw or b"", dtype=kind)
