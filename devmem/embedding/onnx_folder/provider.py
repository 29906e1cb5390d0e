"""The `onnx` provider: an exported model in a folder, run by onnxruntime without torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from threading import Lock
from typing import Any, Final

import numpy as np

from devmem.config.embedding import EmbeddingConfig
from devmem.embedding.base import ModelIdentity
from devmem.embedding.common_directions import CommonDirections
from devmem.embedding.onnx_folder.layout import Layout, read_layout
from devmem.embedding.rows import unit_rows
from devmem.embedding.sample_texts import SAMPLE_TEXTS
from devmem.embedding.token_words import WordFinder
from devmem.embedding.tokens import TokenEmbedding
from devmem.errors import EmbeddingError, MissingExtraError
from devmem.model.items import Vector

_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_OUTPUTS: Final = ("last_hidden_state", "token_embeddings")
_UNKNOWN: Final = ("[UNK]", "<unk>")
"""Names of the token for what a vocabulary does not have, in BERT's and in SentencePiece's."""
_RANK: Final = 3
_ERRORS_ONLY: Final = 3


class _Model:
    """A loaded model."""

    def __init__(self, layout: Layout, *, threads: int) -> None:
        self.layout = layout
        runtime, tokenizers = _package("onnxruntime"), _package("tokenizers")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = _ERRORS_ONLY
        try:
            self._session = runtime.InferenceSession(str(layout.graph), options, providers=["CPUExecutionProvider"])
            self.tokenizer: Any = tokenizers.Tokenizer.from_file(str(layout.tokenizer))
        except Exception as error:  # both raise classes of their own for damaged files
            raise EmbeddingError(f"{layout.graph.parent}: the model cannot be loaded: {error}") from error
        self.tokenizer.enable_truncation(layout.max_tokens)
        self.tokenizer.no_padding()
        self.unknown = {self.tokenizer.token_to_id(name) for name in _UNKNOWN} - {None}
        self._inputs = [one.name for one in self._session.get_inputs()]
        self._output = self._token_output()
        self._common: CommonDirections | None = None

    def _token_output(self) -> str:
        if unknown := sorted(set(self._inputs) - _INPUTS):
            raise EmbeddingError(f"{self.layout.graph}: unknown input {unknown[0]!r}; known: {', '.join(_INPUTS)}")
        ranks: dict[str, int] = {one.name: len(one.shape) for one in self._session.get_outputs()}
        named = [name for name in (*_OUTPUTS, *ranks) if ranks.get(name) == _RANK]
        if not named:
            raise EmbeddingError(
                f"{self.layout.graph}: no output has token vectors (texts, tokens, dimension); it has {sorted(ranks)}. "
                "Export the model without its pooling."
            )
        return named[0]

    def run(self, encodings: Sequence[Any]) -> list[Vector]:
        """Return each text's token vectors, shape (tokens, dimension), after the layers that tokens pass."""
        longest = max(len(one.ids) for one in encodings)
        arrays = {name: np.zeros((len(encodings), longest), dtype=np.int64) for name in _INPUTS}
        for row, one in enumerate(encodings):
            arrays["input_ids"][row, : len(one.ids)] = one.ids
            arrays["attention_mask"][row, : len(one.ids)] = 1
            arrays["token_type_ids"][row, : len(one.ids)] = one.type_ids
        try:
            (hidden,) = self._session.run([self._output], {name: arrays[name] for name in self._inputs})
        except Exception as error:  # onnxruntime raises classes of its own
            raise EmbeddingError(f"{self.layout.graph}: the model failed: {error}") from error
        rows = [
            np.asarray(tokens[: len(one.ids)], dtype=np.float32) for tokens, one in zip(hidden, encodings, strict=True)
        ]
        for layer in self.layout.token_layers:
            rows = [layer(each) for each in rows]
        return rows

    def pooled(self, hidden: Sequence[Vector]) -> Vector:
        """Return each text's vector, shape (texts, dimension), before it gets unit length."""
        vectors = np.stack([tokens[0] if self.layout.pooling == "cls" else tokens.mean(axis=0) for tokens in hidden])
        for layer in self.layout.vector_layers:
            vectors = layer(vectors)
        return vectors

    @property
    def common(self) -> CommonDirections | None:
        """Common part of all token vectors; None for a model that was trained to compare tokens."""
        if self._common is None and not self.layout.late_interaction:
            encodings = self.tokenizer.encode_batch(list(SAMPLE_TEXTS))
            self._common = CommonDirections.of([hidden[1:-1] for hidden in self.run(encodings)])
        return self._common


class _Loading:
    """Loads the model when it is first needed; safe to use from several threads."""

    def __init__(self, config: EmbeddingConfig) -> None:
        self._config, self._lock = config, Lock()

    @cached_property
    def layout(self) -> Layout:
        return read_layout(self._config)

    @cached_property
    def identity(self) -> ModelIdentity:
        folder = self.layout.graph.parent
        name = folder.parent.name if folder.name == "onnx" else folder.name
        return ModelIdentity(name=self.layout.identity(name))

    @cached_property
    def _model(self) -> _Model:
        return _Model(self.layout, threads=self._config.params.threads)

    def get(self) -> _Model:
        with self._lock:
            return self._model


class OnnxEmbedder:
    """Embeds texts, each with a prefix before it."""

    def __init__(self, loading: _Loading, *, batch_size: int, for_queries: bool) -> None:
        self._loading, self._batch_size, self._for_queries = loading, batch_size, for_queries

    @property
    def identity(self) -> ModelIdentity:
        """Identity with a digest of samples of the weights and of what else changes the vectors.

        Raises:
            ModelNotFoundError: the folder has no graph or no tokenizer.
        """
        return self._loading.identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), dimension); tokens beyond the model's limit are ignored.

        Raises:
            MissingExtraError: onnxruntime or tokenizers is not installed.
            ModelNotFoundError: the folder has no graph or no tokenizer.
            EmbeddingError: the model cannot be loaded or run.
        """
        model = self._loading.get()
        return unit_rows(model.pooled([hidden for _, hidden in self._run(model, texts)]), source=self.identity.name)

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens in one pass; raises what `embed` raises."""
        model = self._loading.get()
        found = self._run(model, texts)
        vectors = unit_rows(model.pooled([hidden for _, hidden in found]), source=self.identity.name)
        return [
            _with_tokens(vector, self._prefix + text, len(self._prefix), encoding, hidden, model)
            for vector, text, (encoding, hidden) in zip(vectors, texts, found, strict=True)
        ]

    @cached_property
    def _prefix(self) -> str:
        prompts = self._loading.layout.prompts
        return prompts.query if self._for_queries else prompts.passage

    def _run(self, model: _Model, texts: Sequence[str]) -> list[tuple[Any, Vector]]:
        encodings = model.tokenizer.encode_batch([self._prefix + text for text in texts])
        order = sorted(range(len(texts)), key=lambda number: len(encodings[number].ids))
        found: dict[int, Vector] = {}
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            found |= zip(batch, model.run([encodings[number] for number in batch]), strict=True)
        return [(encodings[number], found[number]) for number in range(len(texts))]


class Provider(OnnxEmbedder):
    """Embeds passages with an exported model; its files are read at the first text."""

    def __init__(self, config: EmbeddingConfig) -> None:
        if config.params.model_path is None:
            read_layout(config)
        loading, batch_size = _Loading(config), config.params.batch_size
        super().__init__(loading, batch_size=batch_size, for_queries=False)
        self._queries = OnnxEmbedder(loading, batch_size=batch_size, for_queries=True)

    def for_queries(self) -> OnnxEmbedder:
        """Return the embedder of questions."""
        return self._queries


def _with_tokens(
    vector: Vector,
    text: str,
    start: int,
    encoding: Any,  # noqa: ANN401 - tokenizers has no types
    hidden: Vector,
    model: _Model,
) -> TokenEmbedding:
    """Return the tokens of the text itself, without those of the prefix and the model's own."""
    special, spans = encoding.special_tokens_mask, encoding.offsets
    kept = [at for at, (_, end) in enumerate(spans) if not special[at] and end > start]
    tokens = hidden[kept]
    if model.common is not None:
        tokens = model.common.removed_from(tokens)
    tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    finder, places = WordFinder(text), [spans[at] for at in kept]
    known = finder.known_share(places, [encoding.ids[at] in model.unknown for at in kept])
    return TokenEmbedding(vector=vector, tokens=tokens, words=finder.words(places), known=known)


def _package(name: str) -> Any:  # noqa: ANN401 - neither package has types
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature="the embedding provider 'onnx'", package=name, extra="onnx") from error
