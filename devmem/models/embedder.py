"""The embedding protocol: texts in, vectors out."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from devmem.config.store import EmbeddingParams
from devmem.errors import EmbeddingError, TextsRefusedError
from devmem.model.items import Vector
from devmem.text.analysis import is_content, mostly_unspaced


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Identity of the model that makes the vectors; vectors of two models are never compared."""

    name: str
    """Provider, model and whatever else changes the vectors, as in `openai:text-embedding-3-small:512`."""
    dimension: int | None = None
    """Length of a vector; None when only the provider's first answer will tell."""
    least_similarity: float | None = field(default=None, compare=False)
    """Cosine of a message and the nearest of many texts below which none of them has to do with it, for
    `devmem.search.silence`; None where it is not known."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; safe to call from several threads."""

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model; reading it calls nothing."""
        ...

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, each of them as it was written.

        Returns:
            float32 of shape (len(texts), dimension), each row of unit length.

        Raises:
            EmbeddingUnavailableError: the provider does not answer now; nothing was embedded.
            TextsRefusedError: it refuses some of the texts.
            EmbeddingError: it will never embed these texts.
        """
        ...


@runtime_checkable
class AsymmetricEmbedder(Protocol):
    """An embedder of a model that embeds questions in another way than what is searched."""

    def for_queries(self) -> Embedder:
        """Return the embedder of questions, of the same identity; it shares the loaded model."""
        ...


def query_embedder(embedder: Embedder) -> Embedder:
    """Return what embeds the questions for texts that `embedder` embeds: itself, unless the model tells them apart."""
    return embedder.for_queries() if isinstance(embedder, AsymmetricEmbedder) else embedder


_QUERIES_KEPT: Final = 256
_QueryVectors: TypeAlias = "tuple[Vector, TokenEmbedding | None]"
_kept_queries: WeakKeyDictionary[Embedder, OrderedDict[str, _QueryVectors]] = WeakKeyDictionary()
_keeping = Lock()


def embed_query(embedder: Embedder, text: str) -> _QueryVectors:
    """Embed a question by the embedder of the texts it is asked of; safe to call from several threads.

    The last 256 questions of each embedder are kept in memory: a page of results, another store, or the next step of
    an agent asks the same one again.

    Returns:
        The vector, shape (dimension,), and that of the text's tokens; None for a model without them.

    Raises:
        EmbeddingError: the provider failed.
    """
    with _keeping:
        kept = _kept_by(embedder)
        if text in kept:
            kept.move_to_end(text)
            return kept[text]
    queries = query_embedder(embedder)
    if isinstance(queries, TokenEmbedder):
        (tokens,) = queries.embed_tokens([text])
        made: _QueryVectors = (tokens.vector, tokens)
    else:
        made = (queries.embed([text])[0], None)
    with _keeping:
        kept[text] = made
        while len(kept) > _QUERIES_KEPT:
            kept.popitem(last=False)
    return made


def _kept_by(embedder: Embedder) -> OrderedDict[str, _QueryVectors]:
    try:
        return _kept_queries.setdefault(embedder, OrderedDict())
    except TypeError:  # a plugin's embedder may be neither hashable nor open to weak references
        return OrderedDict()


Batch = TypeVar("Batch")
Result = TypeVar("Result")


def workers_of(params: EmbeddingParams) -> int:
    """Return how many batches to compute at a time: `workers`, or one on each processor that `threads` leaves."""
    affinity = getattr(os, "sched_getaffinity", None)
    processors = len(affinity(0)) if affinity else os.cpu_count() or 1
    return params.workers or max(1, processors // params.threads)


def in_parallel(run: Callable[[Batch], Result], batches: Sequence[Batch], workers: int) -> Iterator[Result]:
    """Yield the results of batches in their order, several computed at a time in threads."""
    if min(workers, len(batches)) <= 1:
        yield from map(run, batches)
        return
    with ThreadPoolExecutor(min(workers, len(batches)), thread_name_prefix="devmem-embedding") as pool:
        yield from pool.map(run, batches)


READABLE: Final = 0.5
"""A text of which a model knows a smaller share of the words is not readable to it."""

TokenCodes: TypeAlias = NDArray[np.uint8]
"""Signs of token vectors, a bit a component, shape (tokens, ceil(dimension / 8))."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenEmbedding:
    """A text's vector, and the vectors of its tokens in their context."""

    vector: Vector
    """Unit length, shape (dimension,)."""
    tokens: Vector
    """Rows of unit length, shape (tokens, dimension); the model's own tokens ([CLS], [SEP]) are left out."""
    words: tuple[str, ...]
    """The word that each token is a piece of."""
    known: float = 1.0
    """Share of the text's words that the model knows; a model of one language knows little of another."""
    vector_share: float = 0.0
    """Share that the cosine of the vectors has in a match beside late interaction, fitted for the model, 0 to 1."""
    vocabulary: Container[str] | None = None
    """Words in small letters for which the model has one token; None where they are not known."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that returns the vectors of a text's tokens too.

    The protocol has no property: `isinstance` would evaluate it.
    """

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens; raises what `Embedder.embed` raises."""
        ...


def code_bytes(dimension: int) -> int:
    """Return the number of bytes of a token's code."""
    return (dimension + 7) // 8


def token_codes(embedded: TokenEmbedding) -> TokenCodes:
    """Return the codes of a text's content words; of all its words when it has no others.

    A word that occurs several times has one code for each of its pieces, that of the mean of their vectors.
    """
    kept = np.array([is_content(word) for word in embedded.words], dtype=np.bool_)
    if not kept.any():
        kept[:] = True
    places = _places_of_pieces(embedded.words)[kept]
    first, group = np.unique(places, return_inverse=True)
    tokens = embedded.tokens[kept]
    if len(first) < len(tokens):
        sums = np.zeros((len(first), tokens.shape[1]), dtype=np.float32)
        np.add.at(sums, group, tokens)
        tokens = sums
    return np.packbits(tokens > 0, axis=1)


def _places_of_pieces(words: Sequence[str]) -> NDArray[np.int64]:
    """Return for each token the place of the first that is the same piece of the same word."""
    first: dict[tuple[str, int], int] = {}
    places, piece = np.empty(len(words), dtype=np.int64), 0
    for at, word in enumerate(words):
        piece = piece + 1 if at and words[at - 1] == word else 0
        places[at] = first.setdefault((word, piece), at)
    return places


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassageEmbeddings:
    """Embeddings of an item: a vector for each passage, and the codes of their tokens where the model has them."""

    vectors: Vector
    """Rows of unit length, shape (passages, dimension)."""
    tokens: tuple[TokenCodes, ...] | None = None
    """One a passage; None when the model gives none."""
    content_hash: str | None = None
    """Hash of the embedded content, see `embedded_hash`; None when it is not known."""

    def is_of(self, content_hash: str) -> bool:
        """Whether the embeddings are of this content: the item of the same id may have changed meanwhile."""
        return self.content_hash in (None, content_hash)

    @classmethod
    def of(cls, vector: Vector) -> Self:
        """Return the embeddings of an item of one passage, without tokens, from its vector of shape (dimension,)."""
        return cls(vectors=vector[None])

    def __post_init__(self) -> None:
        if self.tokens is not None and len(self.tokens) != len(self.vectors):
            raise ValueError(f"{len(self.vectors)} passages, but token codes of {len(self.tokens)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRefusal:
    """Why the model does not embed an item: it waits by itself until it is tried again on request."""

    reason: str
    content_hash: str
    """Hash of the refused content, see `embedded_hash`."""

    def is_of(self, content_hash: str) -> bool:
        """Whether this content was refused: the item of the same id may have changed meanwhile."""
        return self.content_hash == content_hash


def unit_rows(matrix: Vector, *, source: str) -> Vector:
    """Return the rows of `matrix`, shape (n, dimension), scaled to unit length, as float32.

    Args:
        matrix: rows as the model returned them.
        source: name of the model, for the error.

    Raises:
        EmbeddingError: a row holds NaN or infinity, or is all zeros.
    """
    rows = np.asarray(matrix, dtype=np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    bad = ~np.isfinite(lengths) | (lengths == 0)
    if bad.any():
        raise EmbeddingError(
            f"{source} gave a vector that is all zeros or holds NaN or infinity (row {int(bad.argmax())})"
        )
    unit: Vector = (rows / lengths).astype(np.float32)
    return unit


_RUN: Final = re.compile(r"\w+")
_FEW_PIECES: Final = 2
"""Number of pieces up to which a word is known, however short it is."""
_SPELLED_OUT: Final = 0.6
"""A word with more pieces than this share of its letters is spelled out: the model has not learned it."""

Span = tuple[int, int]
"""Where a piece starts and ends in the text."""


def is_spelled_out(pieces: int, letters: int) -> bool:
    """Whether a word of some letters has as many pieces as one of an alphabet that the model has not learned."""
    return pieces > _FEW_PIECES and pieces > _SPELLED_OUT * letters


def share_of_known(pieces: Iterable[tuple[str, bool]]) -> float:
    """Return the share of a text's pieces that a model knows, 1 for none.

    Marks and digits that it knows do not count: every model knows them, and they make a language no more readable.

    Args:
        pieces: each piece, or the word that it is of, and whether the model knows it.
    """
    counted = [is_known for piece, is_known in pieces if not is_known or any(char.isalpha() for char in piece)]
    return sum(counted) / len(counted) if counted else 1.0


class WordFinder:
    """Finds the words of one text's tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs = [(found.start(), found.end(), found[0]) for found in _RUN.finditer(text)]

    def word(self, start: int, end: int) -> str:
        """Return the run of letters and digits that a piece is of, or the piece itself where it has none.

        In a script without spaces the piece is the word.
        """
        piece = self._text[start:end]
        if not mostly_unspaced(piece):
            for low, high, run in self._runs:
                if low < end and high > start:
                    return run
        return piece

    def words(self, spans: Iterable[Span]) -> tuple[str, ...]:
        """Return the word of each piece, given by where it starts and ends."""
        return tuple(self.word(start, end) for start, end in spans)

    def known_share(self, spans: Sequence[Span], unknown: Sequence[bool]) -> float:
        """Return the share of the pieces that are of words which the model knows; see `share_of_known`.

        Args:
            spans: where each piece stands.
            unknown: whether each is the model's token for what it does not know.
        """
        starts = [low for low, _, _ in self._runs]
        places = [bisect_right(starts, max(start, end - 1)) - 1 for start, end in spans]
        pieces = Counter(places)
        strange = {at for at, is_unknown in zip(places, unknown, strict=True) if is_unknown}
        for at, count in pieces.items():
            run = self._runs[at][2] if at >= 0 else ""
            # In a script without spaces a run is many words, and its own character is usual.
            if is_spelled_out(count, len(run)) and not mostly_unspaced(run) and run:
                strange.add(at)
        return share_of_known(
            (self._text[low:high], at not in strange) for at, (low, high) in zip(places, spans, strict=True)
        )


_DIRECTIONS: Final = 16
"""Number of directions taken off; on Chinese memories with multilingual-e5-small, 4 and 32 found less."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommonDirections:
    """The mean of a model's vectors, and the directions in which they vary most."""

    mean: Vector
    """Shape (dimension,)."""
    directions: Vector
    """Orthonormal rows, shape (directions, dimension)."""

    @classmethod
    def of(cls, samples: Sequence[Vector]) -> Self:
        """Return those of the vectors of sample texts, each of shape (vectors, dimension)."""
        vectors = np.concatenate(samples)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        mean = vectors.mean(axis=0)
        _, _, directions = np.linalg.svd(vectors - mean, full_matrices=False)
        return cls(mean=mean.astype(np.float32), directions=directions[:_DIRECTIONS].astype(np.float32))

    def removed_from(self, vectors: Vector) -> Vector:
        """Return vectors without what they have in common, rows of any length, of the same shape."""
        rest = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) - self.mean
        found: Vector = rest - (rest @ self.directions.T) @ self.directions
        return found


@cache
def sample_texts() -> list[str]:
    """Return texts of many kinds and languages, of which a model's common directions are computed."""
    return files("devmem.models").joinpath("data", "sample_texts.txt").read_text("utf-8").splitlines()


class CombinedEmbedder:
    """Embeds texts with one model and their tokens with another."""

    def __init__(self, vectors: Embedder, tokens: Embedder) -> None:
        """Take both models.

        Raises:
            EmbeddingError: the second one has no token vectors.
        """
        if not isinstance(tokens, TokenEmbedder):
            raise EmbeddingError(
                "`retrieval: {tokens: ...}` names a provider without token vectors; `minilm`, `e5`, `onnx` and `local` "
                "have them."
            )
        self._vectors = vectors
        self._tokens: TokenEmbedder = tokens
        self._token_model: Embedder = tokens

    @property
    def token_model(self) -> Embedder:
        """The model of the tokens."""
        return self._token_model

    @property
    def identity(self) -> ModelIdentity:
        """Identity of both models: what either of them made is not compared with what another one made."""
        inner = self._vectors.identity
        return replace(inner, name=f"{inner.name}+tokens:{self._token_model.identity.name}")

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts with the first model; raises what it raises."""
        return self._vectors.embed(texts)

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts with the first model and their tokens with the second; raises what either raises.

        A text that the second model cannot read has no tokens.
        """
        try:
            vectors = self._vectors.embed(texts)
        except TextsRefusedError as error:
            others = [text for at, text in enumerate(texts) if at not in error.refused]
            raise TextsRefusedError(error.refused, self._with_tokens(error.made, others)) from None
        return self._with_tokens(vectors, texts)

    def _with_tokens(self, vectors: Vector, texts: Sequence[str]) -> list[TokenEmbedding]:
        made = self._tokens.embed_tokens(texts) if texts else []
        return [_combined(vector, tokens) for vector, tokens in zip(vectors, made, strict=True)]

    def for_queries(self) -> CombinedEmbedder:
        """Return the embedder of questions, of both models."""
        return CombinedEmbedder(query_embedder(self._vectors), query_embedder(self._token_model))


def _combined(vector: Vector, made: TokenEmbedding) -> TokenEmbedding:
    if made.known < READABLE:
        made = replace(made, tokens=made.tokens[:0], words=())
    # The share was fitted for the vectors of the other model.
    return replace(made, vector=vector, vector_share=0.0, known=1.0)
