"""BM25 over the postings of a database: fetched for the query's terms, scored here.

A search within few items needs no postings: it reads their terms. Postings of single characters of scripts without
spaces would be most of what is fetched: where the query has other terms, the best by these are found first, and single
characters count for them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted
from devmem.collections.postgres.server.loaded import LoadedItems
from devmem.collections.postgres.server.segments import (
    NO_SEGMENTS,
    IndexedTexts,
    Lists,
    count_postings,
    fetch_postings,
    read_terms,
)
from devmem.collections.postgres.server.term_texts import NO_TEXTS, TermTexts
from devmem.indexes.postings.impacts import K1, impact_table
from devmem.indexes.postings.scoring import TermList, best_of, scores_at
from devmem.indexes.postings.segment import Postings
from devmem.indexes.postings.term_codes import term_hash
from devmem.indexes.row_column import Mask, Rows
from devmem.indexes.top_k import Scores, places_in
from devmem.text.analysis import query_terms, term_weight, terms

_FEW: Final = 3_000
"""Number of admitted items up to which their terms are read instead of postings."""
_SHORT: Final = 20_000
"""Number of a term's postings up to which they are fetched to be counted."""
_SAMPLE: Final = 1_000
"""Number of items in whose terms very common ones are counted."""
_WIDENING: Final = 4
"""Factor by which the limit grows as long as too few of the passages found are admitted."""
_WITHOUT_CHARACTERS: Final = 2
"""Factor by which more passages are found where single characters decide their order."""


class SearchedTexts:
    """The passages that a search may find by words, numbered from 0 on."""

    def __init__(self, indexed: IndexedTexts, admitted: Admitted) -> None:
        """Number the passages: of few admitted items just these, else those of the segments and of the tail."""
        self._connection, self._store = admitted.connection, admitted.store
        self._segments, self.tail = indexed.segments, indexed.tail
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self.mask: Mask | None = None
        """Whether each position may be found; None where all may be that are not deleted."""
        if admitted.restricts:
            self._restrict(admitted.rows)
        self.used = len(self._segments.passages) + len(self.tail.passages)
        self.count = self._count()
        """Number of passages; deleted ones count until a segment is made without them."""
        self.table = impact_table(self._total_length() / max(self.count, 1))

    def _restrict(self, rows: Rows) -> None:
        self._rows = rows
        if len(rows) <= _FEW:
            self._segments, self.tail = NO_SEGMENTS, read_terms(self._connection, self._store, rows.tolist())
            return
        in_tail = np.isin(self.tail.passages >> PASSAGE_BITS, rows)
        self.mask = np.concatenate([self._segments.mask(rows), in_tail])

    def _count(self) -> int:
        return self.used if self.mask is None else int(np.count_nonzero(self.mask))

    def _total_length(self) -> float:
        if self.mask is None:
            return self._segments.total_length + float(self.tail.lengths.sum(dtype=np.float64))
        lengths = np.concatenate([self._segments.lengths, self.tail.lengths])
        return float(lengths.sum(dtype=np.float64, where=self.mask))

    def fetch(self, hashes: Sequence[int]) -> Lists:
        """Return the postings of some terms in the segments."""
        return fetch_postings(self._connection, self._store, self._segments, hashes)

    def frequencies(self, hashes: Sequence[int]) -> dict[int, int]:
        """Return the number of passages that some terms occur in.

        Where not all passages may be found, that of very common terms is estimated from a sample of those that may.
        """
        in_segments = count_postings(self._connection, self._store, self._segments, hashes)
        if self.mask is None:
            return {term: in_segments.get(term, 0) + self.tail.count_of(term) for term in hashes}
        short = [term for term in hashes if in_segments.get(term, 0) <= _SHORT]
        fetched = self.fetch(short)
        found = {term: self.list_of(term, fetched, 1.0).frequency for term in short}
        return found | {term: self._estimated(term) for term in hashes if term not in found}

    def _estimated(self, term: int) -> int:
        return round(self.count * self._sample.count_of(term) / max(len(self._sample.passages), 1))

    @cached_property
    def _sample(self) -> TermTexts:
        """Terms of some of the items that may be found, evenly spread."""
        step = max(1, len(self._rows) // _SAMPLE)
        return read_terms(self._connection, self._store, self._rows[::step].tolist())

    def list_of(self, term: int, fetched: Lists, weight: float) -> TermList:
        """Return the postings of a term that was fetched."""
        parts = [
            Postings(docs=docs, codes=codes, peak=float(self.table[codes].max()))
            for docs, codes in fetched.get(term, ())
        ]
        in_tail = self.tail.postings(term, self.table, len(self._segments.passages))
        parts += [in_tail] if in_tail else []
        mask = self.mask
        frequency = sum(len(one.docs) if mask is None else int(np.count_nonzero(mask[one.docs])) for one in parts)
        return TermList(parts=parts, table=self.table, texts=self.count, frequency=frequency, weight=weight)

    def empty_scores(self) -> Scores:
        """Return 0 for each position that may be found, and -inf for the others."""
        scores = np.zeros(self.used, dtype=np.float32)
        if self.mask is not None:
            scores[~self.mask] = -np.inf
        return scores

    def passages(self, positions: NDArray[np.int64]) -> Rows:
        """Return the passages at some positions."""
        first = len(self._segments.passages)
        found = np.empty(len(positions), dtype=np.int64)
        in_tail = positions >= first
        found[~in_tail] = self._segments.passages[positions[~in_tail]]
        found[in_tail] = self.tail.passages[positions[in_tail] - first]
        return found


class ServerWordQuery:
    """The terms of a text and their postings; see `WordQueryReader`."""

    def __init__(self, text: str, texts: SearchedTexts, loaded: LoadedItems) -> None:
        """Look the terms up."""
        self._texts, self._loaded = texts, loaded
        self._weights = weights = {term_hash(term): term_weight(term) for term in query_terms(text)}
        # Single characters are looked up for candidates only, unless there is nothing else.
        listed = [term for term, weight in weights.items() if weight == 1.0] or list(weights)
        fetched = texts.fetch(listed)
        found = [texts.list_of(term, fetched, weights[term]) for term in listed]
        known = dict(zip(listed, (one.frequency for one in found), strict=True))
        others = [term for term in dict.fromkeys(map(term_hash, terms(text))) if term not in known]
        self._frequencies = known | texts.frequencies(others)
        self._lists = sorted((one for one in found if one.frequency), key=lambda one: one.frequency)
        self._occurring = sorted(
            (term for term in weights if self._frequencies[term]), key=self._frequencies.__getitem__
        )
        self._characters = len(listed) < len(weights)
        self.ceiling = (K1 + 1) * float(sum(self._among(NO_TEXTS, term).idf for term in self._occurring))
        """Score of a short text that repeats every term; 0 when none occurs."""
        self._scored: tuple[TermTexts, Rows, Scores] | None = None

    @property
    def count(self) -> int:
        """Number of passages that may be found."""
        return self._texts.count

    def frequency(self, term: str) -> int:
        """Return the number of passages that a term occurs in; deleted ones may count."""
        hashed = term_hash(term)
        if hashed not in self._frequencies:
            self._frequencies |= self._texts.frequencies([hashed])
        return self._frequencies[hashed]

    def top(self, limit: int) -> Rows:
        """Return the admitted passages with the highest scores above 0, best first."""
        if not self._lists or limit < 1:
            return np.empty(0, dtype=np.int64)
        wanted = limit * _WITHOUT_CHARACTERS if self._characters else limit
        asked = wanted
        while True:
            positions, _ = best_of(self._lists, self._texts.empty_scores(), asked)
            found = self._texts.passages(positions)
            found = found[self._loaded.are_admitted(found >> PASSAGE_BITS)][:wanted]
            if len(found) == wanted or len(positions) < asked:
                break
            asked *= _WIDENING
        if self._characters:
            found = found[np.lexsort((-found, -self.scores_of(found)))]
        return found[:limit]

    def scores_of(self, passages: Rows) -> NDArray[np.float64]:
        """Return the BM25 score of some passages; 0 for one that is not there."""
        self._loaded.load(passages >> PASSAGE_BITS)
        known, scores = self._scores()
        at = places_in(known, passages)
        found = np.zeros(len(passages), dtype=np.float64)
        found[at >= 0] = scores[at[at >= 0]]
        return found

    def _scores(self) -> tuple[Rows, Scores]:
        """Return the passages that were loaded, ascending, and the score of each."""
        texts = self._loaded.terms
        if self._scored is None or self._scored[0] is not texts:
            lists = [self._among(texts, term) for term in self._occurring]
            order = np.argsort(texts.passages)
            self._scored = (texts, texts.passages[order], scores_at(lists, order))
        return self._scored[1], self._scored[2]

    def _among(self, texts: TermTexts, term: int) -> TermList:
        """Return the postings of a term among some passages, with its statistics among all."""
        part = texts.postings(term, self._texts.table)
        return TermList(
            parts=[part] if part else [],
            table=self._texts.table,
            texts=self._texts.count,
            frequency=self._frequencies[term],
            weight=self._weights[term],
        )
