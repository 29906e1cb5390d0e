"""Late interaction: candidates, and the turns around the best of them, compared with the query token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector
from devmem.models.embedder import TokenCodes, code_bytes
from devmem.search.indexes.columns import Rows, computed_once, group_starts, places_in, rank_in_group
from devmem.search.query import Weights, fuse
from devmem.search.source import Column, Places, QueryContext
from devmem.text.analysis import forms_question, terms

_SIGN_SHARE: Final = np.sqrt(2 / np.pi)
"""Cosine of a normally distributed vector and its signs, for long vectors."""

_BITS: Final = 4
_TINY: Final = np.finfo(np.float32).tiny
_LARGEST: Final = 3.0
"""Range of the steps in root mean squares of a vector's components; the few beyond it take the last step."""
_CODE_BYTES: Final = 64
"""FAISS compares codes of 64 bytes four times as fast as those of 48."""
_BLOCK: Final = 8192
_LEAST_WEIGHT: Final = 0.12
"""Tokens that weigh less than this share of the heaviest are left out: common words do not tell texts apart."""
_MOST_TOKENS: Final = 24
"""Maximum number of tokens of a query that are compared, those of the rarest words."""

Scores = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryTokens:
    """The query's tokens and their weights."""

    vectors: Vector
    """Rows of unit length, shape (tokens, dimension)."""
    weights: Scores
    """Add up to 1, shape (tokens,)."""

    def best_matches(self, codes: TokenCodes, counts: Sequence[int] | NDArray[np.int64]) -> Scores:
        """Estimate the cosine of each query token and its nearest token in each text.

        Args:
            codes: of the tokens of all texts, one text after the other; rows may be longer than the codes, as
                `widened` makes them.
            counts: number of tokens of each text, at least 1.

        Returns:
            shape (query tokens, texts).
        """
        dimension = self.vectors.shape[1]
        starts = np.cumsum(counts) - np.asarray(counts)
        nearest = np.minimum.reduceat(self._distances(widened(codes)), starts, axis=1)
        _, step = self._levels
        # The components of both are odd multiples of half a step, and signs: each bit p adds 2**p times its product.
        products = step / 2 * (dimension * ((1 << _BITS) - 1) - 2 * nearest)
        return np.asarray(products / (np.sqrt(dimension) * _SIGN_SHARE), dtype=np.float32)

    def _distances(self, codes: TokenCodes) -> NDArray[np.int32]:
        """Return the Hamming distances between each query token's bits and each token, higher bits weighted more."""
        import faiss

        compare: Any = faiss.hammings  # type: ignore[attr-defined] # FAISS's stubs do not know it.
        pointer = faiss.swig_ptr
        tokens, bits = len(self.vectors), self._bits
        total = np.empty((tokens, len(codes)), dtype=np.int32)
        for start in range(0, len(codes), _BLOCK):
            part = codes[start : start + _BLOCK]
            found = np.empty((tokens, _BITS, len(part)), dtype=np.int32)
            compare(*map(pointer, (bits, part)), len(bits), len(part), bits.shape[1], pointer(found))
            weighed = total[:, start : start + len(part)]
            weighed[:] = found[:, -1]
            for bit in reversed(range(_BITS - 1)):
                weighed += weighed
                weighed += found[:, bit]
        return total

    @computed_once
    def _levels(self) -> tuple[NDArray[np.uint8], Vector]:
        """The step of each component, and the length of a step for each token."""
        spread = np.linalg.norm(self.vectors, axis=1, keepdims=True) / np.sqrt(np.float32(self.vectors.shape[1]))
        largest = np.minimum(np.maximum.reduce(np.abs(self.vectors), axis=1, keepdims=True), _LARGEST * spread)
        last = (1 << _BITS) - 1
        step = np.maximum(2 * largest / last, _TINY)
        steps = (self.vectors + largest) / step
        np.rint(steps, out=steps)
        np.minimum(np.maximum(steps, 0, out=steps), last, out=steps)
        return steps.astype(np.uint8), step

    @computed_once
    def _bits(self) -> TokenCodes:
        """Bits of the levels, the lowest first, shape (tokens * bits, bytes)."""
        levels, _ = self._levels
        taken = (levels[:, np.newaxis, :] >> np.arange(_BITS, dtype=np.uint8)[:, np.newaxis]) & 1
        return widened(np.packbits(taken.reshape(-1, levels.shape[1]), axis=1))

    def score(self, matches: Scores) -> Scores:
        """Return the weighted mean of the query tokens' matches, shape (texts,)."""
        return self.weights @ matches


def widened(codes: TokenCodes) -> TokenCodes:
    """Return the codes padded with zeros to the length that is compared fastest."""
    width = code_width(codes.shape[1])
    if codes.shape[1] == width:
        return np.ascontiguousarray(codes)
    wide = np.empty((len(codes), width), dtype=np.uint8)
    wide[:, : codes.shape[1]] = codes
    wide[:, codes.shape[1] :] = 0
    return wide


def code_width(width: int) -> int:
    """Return the length in bytes of the padded form of a code of `width` bytes."""
    return -(-width // _CODE_BYTES) * _CODE_BYTES


def weigh(vectors: Vector, frequencies: Sequence[int], texts: int) -> QueryTokens | None:
    """Return a query's tokens weighted by the rarity of their words among the texts; None for a query without tokens.

    Args:
        vectors: of the query's tokens, shape (tokens, dimension).
        frequencies: number of texts with the word of each token; -1 for punctuation, which counts nothing.
        texts: number of texts.
    """
    known = np.array(frequencies, dtype=np.float64)
    weights = np.where(known >= 0, np.log1p(texts / (np.maximum(known, 0) + 1)), 0.0)
    if not weights.any():
        return None
    weights = np.where(weights < _LEAST_WEIGHT * weights.max(), 0.0, weights)
    kept = np.sort(np.argsort(-weights, kind="stable")[:_MOST_TOKENS])
    kept = kept[weights[kept] > 0]
    return QueryTokens(vectors=vectors[kept], weights=(weights[kept] / weights[kept].sum()).astype(np.float32))


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
    # -1 is punctuation.
    known = {word: min(map(context.words.frequency, terms(word)), default=-1) for word in dict.fromkeys(words)}
    frequencies = [known[word] for word in words]
    telling = [-1 if forms_question(*pair) else known[pair[0]] for pair in zip(words, ("", *words), strict=False)]
    return weigh(vectors, telling, context.words.count) or weigh(vectors, frequencies, context.words.count)


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
        codes, counts = self._context.source.token_codes(passages, width)
        # The first place holds nothing.
        places = np.zeros(len(new), dtype=np.int64)
        if len(codes):
            if not counts.all():
                known = counts > 0
                passages, owner, counts = passages[known], owner[known], counts[known]
            best = self._tokens.best_matches(codes, counts)
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
