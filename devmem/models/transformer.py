"""Models that run on onnxruntime: texts to their vectors and to those of their tokens, in batches."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from threading import Lock
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import numpy as np

from devmem.config.store import EmbeddingParams
from devmem.forks import follow_forks
from devmem.model.items import Vector
from devmem.models.embedder import (
    CommonDirections,
    ModelIdentity,
    TokenEmbedding,
    in_parallel,
    share_of_known,
    unit_rows,
    workers_of,
)
from devmem.models.model_files import Prompts

WIDTH: Final = 384
"""Dimension of the vectors of `minilm` and of `e5`."""
_BATCH_TOKENS: Final = 512
"""Maximum number of tokens in one run of the model; with more, intermediate results leave the CPU's cache."""
_LEAST_BATCH_TOKENS: Final = 128
"""Tokens below which a run is not divided among threads; the time of a run then depends on reading the weights."""
_ERRORS_ONLY: Final = 3


@cache
def runtime() -> Any:  # noqa: ANN401 - onnxruntime has no types
    """Return the package onnxruntime, which records and sends nothing."""
    # Its official builds do from 1.32 on, unless this is set before they are loaded.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    package = import_module("onnxruntime")
    package.disable_telemetry_events()
    return package


def open_graph(graph: bytes | str, *, threads: int, weights: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - onnxruntime has no types
    """Load a graph.

    Args:
        graph: its content or its path.
        threads: threads for one run.
        weights: those that the graph names and does not hold, as `OrtValue`; they must live as long as the result.

    Raises:
        Exception: onnxruntime raises classes of its own for damaged graphs.
    """
    options = runtime().SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = _ERRORS_ONLY
    if weights:
        options.add_external_initializers(list(weights), list(weights.values()))
    return runtime().InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def unlike(vectors: Vector, common: CommonDirections | None) -> Vector:
    """Return rows of unit length, without what all vectors of the model have in common."""
    rest = vectors if common is None else common.removed_from(vectors)
    unit: Vector = rest / np.linalg.norm(rest, axis=1, keepdims=True)
    return unit


class Transformer(Protocol):
    """A loaded model; safe to use from several threads."""

    def encode(self, text: str) -> Any:  # noqa: ANN401 - that of the model's tokenizer
        """Return the tokens of a text; `len` is their number, the model's own included."""
        ...

    def run(self, batch: Sequence[Any], /) -> list[Vector]:
        """Return the token vectors of each text, shape (its tokens, dimension)."""
        ...

    def pooled(self, hidden: Sequence[Vector]) -> Vector:
        """Return the texts' vectors, shape (texts, dimension), of any length, from those of their tokens."""
        ...

    def token_embedding(
        self,
        text: str,
        prefix: str,
        encoding: Any,  # noqa: ANN401
        hidden: Vector,
        vector: Vector,
    ) -> TokenEmbedding:
        """Return a text's vector with the vectors of its tokens, without those of the prefix and the model's own."""
        ...


M = TypeVar("M")


class LoadedOnce(Generic[M]):
    """An object that is loaded when it is first needed; safe to use from several threads."""

    def __init__(self, load: Callable[[], M]) -> None:
        self._load, self._loaded = load, list[M]()
        self.lock = Lock()
        follow_forks(self)

    def get(self) -> M:
        """Return it; raises what loading it raises."""
        with self.lock:
            if not self._loaded:
                self._loaded.append(self._load())
            return self._loaded[0]


class TransformerEmbedder(ABC):
    """Embeds texts, each behind a prompt; the model is located, checked and loaded at the first text."""

    def __init__(self, params: EmbeddingParams) -> None:
        self._params, self._for_queries = params, False
        self._model: LoadedOnce[Transformer] = LoadedOnce(self.load)

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """Identity of the model; raises what reading its files raises."""

    @property
    def prompts(self) -> Prompts:
        """Texts that stand before questions and before what is searched; their tokens get no vectors."""
        return Prompts()

    @abstractmethod
    def load(self) -> Transformer:
        """Load the model."""

    def for_queries(self) -> Self:
        """Return the embedder of questions, which shares the loaded model."""
        queries = copy.copy(self)
        queries._for_queries = True  # noqa: SLF001 - a copy of this one
        return queries

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), dimension); tokens beyond the model's limit are ignored.

        Raises:
            ModelNotFoundError: a file of the model is not on this machine.
            EmbeddingError: the model cannot be loaded or run.
        """
        model = self._model.get()
        return self._vectors(model, [hidden for _, hidden in self._run(model, texts)])

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens in one pass; raises what `embed` raises."""
        model = self._model.get()
        found = self._run(model, texts)
        vectors = self._vectors(model, [hidden for _, hidden in found])
        return [
            model.token_embedding(text, self._prefix, encoding, hidden, vector)
            for text, vector, (encoding, hidden) in zip(texts, vectors, found, strict=True)
        ]

    @property
    def _prefix(self) -> str:
        return self.prompts.query if self._for_queries else self.prompts.passage

    def _vectors(self, model: Transformer, hidden: Sequence[Vector]) -> Vector:
        return unit_rows(model.pooled(hidden), source=self.identity.name)

    def _run(self, model: Transformer, texts: Sequence[str]) -> list[tuple[Any, Vector]]:
        """Return each text's tokens and their vectors."""
        encodings = [model.encode(self._prefix + text) for text in texts]
        workers = workers_of(self._params)
        batches = list(self._batches([len(one) for one in encodings], workers))
        inputs = [[encodings[number] for number in batch] for batch in batches]
        hidden: dict[int, Vector] = {}
        for batch, found in zip(batches, in_parallel(model.run, inputs, workers), strict=True):
            hidden |= zip(batch, found, strict=True)
        return [(encoding, hidden[number]) for number, encoding in enumerate(encodings)]

    def _batches(self, lengths: Sequence[int], workers: int) -> Iterator[list[int]]:
        """Yield the texts' numbers in batches, the longest texts first, so that little is padded."""
        most = min(max(-(-sum(lengths) // workers), _LEAST_BATCH_TOKENS), _BATCH_TOKENS)
        batch: list[int] = []
        for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            longest = lengths[batch[0]] if batch else 0
            if batch and (len(batch) == self._params.batch_size or longest * (len(batch) + 1) > most):
                yield batch
                batch = []
            batch.append(number)
        yield batch


class Rows(Protocol):
    """A table of word embeddings, shape (words, 384)."""

    def __getitem__(self, ids: Sequence[int], /) -> Vector:
        """Return the rows of some words, shape (len(ids), 384), float32."""
        ...


class Tokenizer(Protocol):
    """Splits texts into the tokens of a model; safe to use from several threads."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, between those of the model's own first and last token."""
        ...

    def words(self, text: str) -> list[str]:
        """Return the word of each token that `encode` returns, without the model's own two."""
        ...

    def is_known(self, word: str) -> bool:
        """Whether the vocabulary has pieces for a word."""
        ...

    @property
    def vocabulary(self) -> Container[str]:
        """The words in small letters that have one token."""
        ...


_IN_GRAPH: Final = ("embeddings.LayerNorm.", "encoder.")
"""Prefixes of the weights that the graph reads; it starts from the embeddings of words and positions."""


class Bert:
    """A BERT model of width 384: a graph of this package, which holds no weights, on those of the model's file."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        weights: Mapping[str, Vector],
        words: Rows,
        *,
        threads: int,
        of_texts: CommonDirections | None = None,
        of_tokens: CommonDirections | None = None,
        vector_share: float = 0.0,
    ) -> None:
        """Load the model.

        Args:
            tokenizer: the model's own.
            weights: all but the words, under the names of the official safetensors file.
            words: table of word embeddings.
            threads: threads for one run.
            of_texts: common part of all texts' vectors, which is removed; None where they differ enough without that.
            of_tokens: that of all token vectors.
            vector_share: see `TokenEmbedding.vector_share`.
        """
        self._tokenizer, self._words = tokenizer, words
        self._of_texts, self._of_tokens, self._vector_share = of_texts, of_tokens, vector_share
        types = weights["embeddings.token_type_embeddings.weight"]
        self._places = weights["embeddings.position_embeddings.weight"] + types[0]
        # onnxruntime does not copy them.
        self._weights = {
            name: runtime().OrtValue.ortvalue_from_numpy(array)
            for name, array in weights.items()
            if name.startswith(_IN_GRAPH)
        }
        layers = sum(name.endswith("attention.self.query.weight") for name in weights)
        graph = files("devmem.models").joinpath("data", f"graph_{layers}.onnx").read_bytes()
        self._graph = open_graph(graph, threads=threads, weights=self._weights)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's tokens."""
        return self._tokenizer.encode(text)

    def run(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return the token vectors of each text, shape (its tokens, 384)."""
        lengths = np.array([len(ids) for ids in batch], dtype=np.int32)
        rows = np.zeros((len(batch), lengths.max(), WIDTH), dtype=np.float32)
        for row, ids in zip(rows, batch, strict=True):
            row[: len(ids)] = self._words[ids] + self._places[: len(ids)]
        (hidden,) = self._graph.run(["hidden"], {"rows": rows, "lengths": lengths})
        return [tokens[:length] for tokens, length in zip(hidden, lengths, strict=True)]

    def pooled(self, hidden: Sequence[Vector]) -> Vector:
        """Return the means of the texts' token vectors, shape (texts, 384)."""
        means = np.stack([tokens.mean(axis=0) for tokens in hidden])
        return means if self._of_texts is None else self._of_texts.removed_from(means)

    def token_embedding(
        self, text: str, prefix: str, encoding: Sequence[int], hidden: Vector, vector: Vector
    ) -> TokenEmbedding:
        """Return a text's vector with the vectors of its tokens, without those of the prefix and the model's own."""
        start = len(self._tokenizer.words(prefix))
        words = self._tokenizer.words(prefix + text)[start:]
        return TokenEmbedding(
            vector=vector,
            tokens=unlike(hidden[1 + start : len(encoding) - 1], self._of_tokens),
            words=tuple(words),
            vector_share=self._vector_share,
            known=share_of_known((word, self._tokenizer.is_known(word)) for word in words),
            vocabulary=self._tokenizer.vocabulary,
        )
