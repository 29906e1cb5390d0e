"""Late interaction: candidates, and the turns around the best of them, compared with the query token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from devmem.embedding.tokens import code_bytes
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import places_in
from devmem.ranking import QueryTokens, Scores, Weights, fuse, weigh
from devmem.ranking.groups import group_starts, rank_in_group
from devmem.search.context import Column, Places, QueryContext
from devmem.text.analysis import forms_question, terms

_PASSAGES: Final = 3
"""Maximum number of an item's passages that are compared, the best by words and meaning."""
_NOTHING: Final = np.float32(-1)


def query_tokens(context: QueryContext) -> QueryTokens | None:
    """Return the query's tokens, each weighted by the rarity of its word among the admitted passages.

    Words that only form a question count where there are no others.
    """
    query = context.query
    if query.tokens is None or not query.ranking.late_interaction:
        return None
    vectors, words = query.tokens.tokens, query.tokens.words
    known = {word: _frequency(context, word) for word in dict.fromkeys(words)}
    frequencies = [known[word] for word in words]
    telling = [-1 if forms_question(*pair) else known[pair[0]] for pair in zip(words, ("", *words), strict=False)]
    return weigh(vectors, telling, context.words.count) or weigh(vectors, frequencies, context.words.count)


def _frequency(context: QueryContext, word: str) -> int:
    """Return the number of admitted passages with a word; -1 for what is no word."""
    parts = terms(word)
    return min(context.words.frequency(term) for term in parts) if parts else -1


class MaxSimScorer:
    """MaxSim of the query's tokens and items, computed once for each item."""

    def __init__(self, context: QueryContext, tokens: QueryTokens) -> None:
        self._context, self._tokens = context, tokens
        # The rows that were scored, ascending, and the place of each below.
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._places: Places = np.empty(0, dtype=np.int64)
        self._best = np.full((len(tokens.weights), 1), _NOTHING, dtype=np.float32)
        self._scores = np.full(1, np.nan)
        self._passages: Rows = np.zeros(1, dtype=np.int64)

    def scores(self, rows: Rows) -> Column:
        """Return the score of the best passage of each row; NaN for one without token codes."""
        self._ensure_scored(rows)
        return self._scores[self._places_of(rows)]

    def passages(self, rows: Rows) -> Rows:
        """Return the best passage of each row; 0 for a row without token codes."""
        self._ensure_scored(rows)
        return self._passages[self._places_of(rows)]

    @property
    def weights(self) -> Scores:
        """Weight of each of the query's tokens, shape (tokens,)."""
        return self._tokens.weights

    def by_token(self, rows: Rows) -> Scores:
        """Return the best match of each of the query's tokens in each row, shape (tokens, rows).

        A row without token codes gets the lowest match of the others.
        """
        self._ensure_scored(rows)
        found = self._best[:, self._places_of(rows)]
        known = found[0] != _NOTHING
        if known.any():
            found[:, ~known] = found[:, known].min(axis=1, keepdims=True)
        return found

    def gains(self, rows: Rows, around: Sequence[Rows]) -> Column:
        """Return how much each row's score grows when its tokens and those of the rows around it count together.

        Args:
            rows: shape (n,); each was scored before.
            around: arrays of shape (n,), -1 for none.
        """
        own = self._best[:, self._places_of(rows)]
        together = own
        self._ensure_scored(np.unique(np.concatenate(around)))
        for places in np.maximum(self._places_of(np.stack(around)), 0):
            together = np.maximum(together, self._best[:, places])
        found = self._tokens.score(together) - self._tokens.score(own)
        return np.where(own[0] == _NOTHING, 0.0, found)

    def _places_of(self, rows: Rows) -> Places:
        """Return each row's place: 0, which holds nothing, for one without token codes; -1 for one not scored yet."""
        at = places_in(self._rows, rows)
        return np.where(at >= 0, self._places[at], -1) if len(self._rows) else at

    def _ensure_scored(self, rows: Rows) -> None:
        new = rows[(rows >= 0) & (self._places_of(rows) < 0)]
        if not len(new):
            return
        passages, owner = _best_passages(self._context, new)
        width = code_bytes(self._tokens.vectors.shape[1])
        codes, counts = self._context.source.token_codes(passages.tolist(), width)
        # The first place holds nothing.
        places = np.zeros(len(new), dtype=np.int64)
        if len(codes):
            best = self._tokens.best_matches(codes, counts[counts > 0])
            passages, owner = passages[counts > 0], owner[counts > 0]
            starts = group_starts(owner)
            scores = self._tokens.score(best)
            places[owner[starts]] = self._best.shape[1] + np.arange(len(starts))
            self._best = np.hstack([self._best, np.maximum.reduceat(best, starts, axis=1)])
            self._scores = np.append(self._scores, np.maximum.reduceat(scores, starts))
            best_first = np.lexsort((-scores, owner)) if len(starts) < len(owner) else starts
            self._passages = np.append(self._passages, passages[best_first[starts]])
        rows, places = np.append(self._rows, new), np.append(self._places, places)
        order = np.argsort(rows)
        self._rows, self._places = rows[order], places[order]


def _best_passages(context: QueryContext, rows: Rows) -> tuple[Rows, Places]:
    """Return the best passages of each row and its place in `rows`, both in the order of the rows."""
    passages, owner = context.indexes.passage_map.passages_of(rows)
    if len(passages) == len(rows):
        return passages, owner
    score = fuse(*context.signals(passages), Weights())
    order = np.lexsort((-score, owner))
    kept = np.sort(order[rank_in_group(owner[order]) < _PASSAGES])
    return passages[kept], owner[kept]
