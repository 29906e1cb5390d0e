"""BM25 over the postings of a database: fetched for the query's terms, scored here.

A search within few items needs no postings: it reads their terms. Postings of single characters of scripts without
spaces would be most of what is fetched: where the query has other terms, the best by these are found first, and single
characters count for them alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.loaded import LoadedItems
from devmem.collections.postgres.server.searched_texts import SearchedTexts
from devmem.collections.postgres.server.term_texts import NO_TEXTS, TermTexts
from devmem.indexes.postings.impacts import K1
from devmem.indexes.postings.scoring import TermList, best_of, scores_at
from devmem.indexes.postings.term_codes import term_hash
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import Scores, places_in
from devmem.text.analysis import query_terms, term_weight, terms

_WIDENING: Final = 4
"""Factor by which the limit grows as long as too few of the passages found are admitted."""
_WITHOUT_CHARACTERS: Final = 2
"""Factor by which more passages are found where single characters decide their order."""


class ServerWordQuery:
    """The terms of a text and their postings; see `WordQueryReader`."""

    def __init__(self, text: str, texts: SearchedTexts, loaded: LoadedItems) -> None:
        """Look the terms up."""
        self._texts, self._loaded = texts, loaded
        self._weights = weights = {term_hash(term): term_weight(term) for term in query_terms(text)}
        # Single characters are looked up for candidates only, unless there is nothing else.
        listed = [term for term, weight in weights.items() if weight == 1.0] or list(weights)
        found = texts.lists_of({term: weights[term] for term in listed})
        known = {term: one.frequency for term, one in found.items()}
        others = [term for term in dict.fromkeys(map(term_hash, terms(text))) if term not in known]
        self._frequencies = known | texts.frequencies(others)
        self._lists = sorted((one for one in found.values() if one.frequency), key=lambda one: one.frequency)
        self._occurring = sorted(
            (term for term in weights if self._frequencies[term]), key=self._frequencies.__getitem__
        )
        self._characters = len(listed) < len(weights)
        self.ceiling = (K1 + 1) * float(sum(self._among(NO_TEXTS, term).idf for term in self._occurring))
        """Score of a short text that repeats every term; 0 when none occurs."""
        self._scored: tuple[Rows, Rows, Scores] | None = None

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
            positions, _ = best_of(self._lists, np.zeros(self._texts.count, dtype=np.float32), asked)
            found = self._texts.passages_at(positions)
            found = found[self._loaded.are_admitted(found >> PASSAGE_BITS)][:wanted]
            if len(found) == wanted or len(positions) < asked:
                break
            asked *= _WIDENING
        if self._characters:
            found = found[np.lexsort((-found, -self.scores_of(found)))]
        return found[:limit]

    def scores_of(self, passages: Rows) -> NDArray[np.float64]:
        """Return the BM25 score of some passages; 0 for one that is not there."""
        found = np.zeros(len(passages), dtype=np.float64)
        if self._characters:
            known, scores = self._scores_with_characters(passages)
            at = places_in(known, passages)
            found[at >= 0] = scores[at[at >= 0]]
        else:
            at = self._texts.positions_of(passages)
            found[at >= 0] = scores_at(self._lists, at[at >= 0])
        return found

    def _scores_with_characters(self, passages: Rows) -> tuple[Rows, Scores]:
        """Return the passages that were loaded, ascending, and the score of each by all terms of the query."""
        self._loaded.load(passages >> PASSAGE_BITS)
        loaded = self._loaded.passages
        if self._scored is None or self._scored[0] is not loaded:
            texts = self._texts.terms_of(loaded)
            order = np.argsort(texts.passages)
            lists = [self._among(texts, term) for term in self._occurring]
            self._scored = loaded, texts.passages[order], scores_at(lists, order)
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
