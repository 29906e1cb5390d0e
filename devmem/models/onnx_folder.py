"""Models that were exported to ONNX: a folder as the hub has it, with the graph and `tokenizer.json`."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from devmem.config.store import EmbeddingConfig, EmbeddingParams
from devmem.errors import EmbeddingError, MissingExtraError, ModelNotFoundError
from devmem.forks import follow_forks
from devmem.model.items import Vector
from devmem.models.embedder import (
    SAMPLE_TEXTS,
    CommonDirections,
    ModelIdentity,
    TokenEmbedding,
    WordFinder,
    in_parallel,
    unit_rows,
    workers_of,
)
from devmem.models.model_files import Prompts, mapped, read_json, read_prompts, read_tensors, sampled
from devmem.text.files import expanded

__all__ = ["Provider"]


_GRAPHS: Final = ("model.onnx", "onnx/model.onnx")
_NO_WEIGHTS: Final = (".json", ".txt", ".md", ".onnx", ".safetensors", ".py")
_POINTER: Final = b"version https://git-lfs"
"""Beginning of the file that a clone without Git LFS has in the place of a large one."""
_USUAL_TOKENS: Final = 512
_MOST_TOKENS: Final = 8192
"""Limit of a text's tokens; files say a number of 30 digits where a tokenizer has no limit."""
_ACTIVATIONS: Final = {"torch.nn.modules.linear.Identity": False, "torch.nn.modules.activation.Tanh": True}
"""Activations of a dense layer by their names in the file: whether it is the hyperbolic tangent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dense:
    """A dense layer behind the graph."""

    weight: Vector
    """Shape (out, in)."""
    bias: Vector | None = None
    tanh: bool = False

    def __call__(self, rows: Vector) -> Vector:
        """Return the rows after the layer, shape (rows, out)."""
        found: Vector = rows @ self.weight.T
        if self.bias is not None:
            found = found + self.bias
        return np.tanh(found) if self.tanh else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """A model's folder, read."""

    graph: Path
    weights: tuple[Path, ...]
    """Files beside the graph that hold weights of it."""
    tokenizer: Path
    pooling: str
    """`mean` or `cls`."""
    prompts: Prompts
    max_tokens: int
    token_layers: tuple[Dense, ...] = field(default=())
    """Layers that each token vector passes, as in ColBERT models."""
    vector_layers: tuple[Dense, ...] = field(default=())
    """Layers that the text's vector passes."""
    late_interaction: bool = False
    """Whether the model was trained to compare tokens."""

    def identity(self, name: str) -> str:
        """Name the model: the same only where the same text gets the same vector."""
        digest = hashlib.sha256()
        for file in (self.graph, *self.weights):
            for sample in sampled(file):
                digest.update(sample)
        for layer in (*self.token_layers, *self.vector_layers):
            digest.update(layer.weight.tobytes())
        details = f"{self.pooling}:{self.max_tokens}{self.prompts.suffix}"
        digest.update(details.encode())
        return f"onnx:{name}@{digest.hexdigest()[:12]}"


def read_layout(config: EmbeddingConfig) -> Layout:
    """Read a model's folder.

    Raises:
        ModelNotFoundError: the graph or the tokenizer is not there.
        EmbeddingError: a file cannot be read, or asks for what is not supported.
    """
    folder = config.params.model_path
    if folder is None:
        raise EmbeddingError(
            "the embedding provider 'onnx' needs a folder with model.onnx and tokenizer.json: "
            "`embedding: {provider: onnx, params: {model_path: FOLDER}}`. Nothing is downloaded."
        )
    folder = expanded(folder)
    poolings, layers = _modules(folder)
    projection = _colbert_projection(folder)
    pooled = config.params.pooling
    graph = _graph(folder, config.model)
    return Layout(
        graph=graph,
        weights=tuple(map(_checked, _external_data(graph))),
        tokenizer=_existing(folder, "tokenizer.json"),
        pooling=(poolings[0] if poolings else "mean") if pooled == "auto" else pooled,
        prompts=read_prompts(folder, config.params),
        max_tokens=_max_tokens(folder),
        token_layers=(*projection, *(() if poolings else layers)),
        vector_layers=tuple(layers) if poolings else (),
        late_interaction=bool(projection) or (bool(layers) and not poolings),
    )


def _external_data(graph: Path) -> list[Path]:
    """Return the files beside a graph that hold its weights: those that it names."""
    others = (one for one in graph.parent.iterdir() if one.is_file() and one.suffix not in _NO_WEIGHTS)
    beside = sorted(one for one in others if one != graph)
    if not beside or not graph.stat().st_size:
        return []
    with graph.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [one for one in beside if content.find(one.name.encode()) >= 0]


def _graph(folder: Path, name: str | None) -> Path:
    there = (folder / one for one in _GRAPHS if (folder / one).is_file())
    found = next(there, None) if name is None else _existing(folder, name)
    if found is None:
        raise ModelNotFoundError(
            f"{folder}: neither {' nor '.join(_GRAPHS)} there; `model` names another file of the folder."
        )
    return _checked(found)


def _checked(file: Path) -> Path:
    with file.open("rb") as opened:
        if opened.read(len(_POINTER)) == _POINTER:
            raise ModelNotFoundError(f"{file}: a pointer of Git LFS, not the model; run `git lfs pull` in its clone.")
    return file


def _existing(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise ModelNotFoundError(f"{folder}: no {name} there. `params.model_path` has to name the model's folder.")
    return folder / name


def _modules(folder: Path) -> tuple[list[str], list[Dense]]:
    """Return the pooling, where the folder names one, and the dense layers, in the order of `modules.json`."""
    path = folder / "modules.json"
    try:
        modules = json.loads(path.read_text("utf-8")) if path.is_file() else [{"path": "1_Pooling", "type": "Pooling"}]
        parts = [(str(one["path"]), str(one["type"]).rsplit(".", 1)[-1]) for one in modules]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddingError(f"{path}: no list of modules as sentence-transformers writes it: {error!r}") from error
    poolings = [pooling for name, kind in parts if kind == "Pooling" for pooling in _pooling(folder / name)]
    return poolings, [_dense(folder / name) for name, kind in parts if kind == "Dense"]


def _pooling(folder: Path) -> Iterator[str]:
    path = folder / "config.json"
    found = read_json(path)
    if not found:
        return
    modes = {
        name.removeprefix("pooling_mode_") for name, on in found.items() if name.startswith("pooling_mode_") and on
    }
    if modes not in ({"mean_tokens"}, {"cls_token"}):
        raise EmbeddingError(f"{path}: pooling by {', '.join(sorted(modes)) or 'nothing'}; possible are mean and CLS")
    yield "cls" if modes == {"cls_token"} else "mean"


def _dense(folder: Path) -> Dense:
    found = read_json(folder / "config.json")
    activation = str(found.get("activation_function", "torch.nn.modules.linear.Identity"))
    if activation not in _ACTIVATIONS:
        raise EmbeddingError(f"{folder}: a dense layer with {activation}; possible are {', '.join(_ACTIVATIONS)}")
    tensors = _tensors(_existing(folder, "model.safetensors"))
    if "linear.weight" not in tensors:
        raise EmbeddingError(f"{folder}: no tensor linear.weight in model.safetensors")
    return Dense(weight=tensors["linear.weight"], bias=tensors.get("linear.bias"), tanh=_ACTIVATIONS[activation])


def _colbert_projection(folder: Path) -> tuple[Dense, ...]:
    """Return the projection of a ColBERT model, which stands beside the weights of its encoder."""
    if not any("ColBERT" in name for name in read_json(folder / "config.json").get("architectures") or ()):
        return ()
    path = folder / "model.safetensors"
    tensors = _tensors(path) if path.is_file() else {}
    return (Dense(weight=tensors["linear.weight"]),) if "linear.weight" in tensors else ()


def _tensors(path: Path) -> dict[str, Vector]:
    try:
        return read_tensors(mapped(path))
    except (OSError, ValueError, KeyError) as error:
        raise EmbeddingError(f"{path}: no tensors can be read: {error!r}") from error


def _max_tokens(folder: Path) -> int:
    """Return the limit that the folder's files name, the one made for sentence embeddings first."""
    named = (
        read_json(folder / "sentence_bert_config.json").get("max_seq_length"),
        read_json(folder / "config_sentence_transformers.json").get("document_length"),
        read_json(folder / "tokenizer_config.json").get("model_max_length"),
        read_json(folder / "config.json").get("max_position_embeddings"),
    )
    found = next((one for one in named if isinstance(one, int) and 0 < one <= _MOST_TOKENS), _USUAL_TOKENS)
    return int(found)


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
        follow_forks(self)

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

    def __init__(self, loading: _Loading, params: EmbeddingParams, *, for_queries: bool) -> None:
        self._loading, self._for_queries = loading, for_queries
        self._batch_size, self._workers = params.batch_size, workers_of(params)

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
        batches = [order[start : start + self._batch_size] for start in range(0, len(order), self._batch_size)]
        inputs = [[encodings[number] for number in batch] for batch in batches]
        found: dict[int, Vector] = {}
        for batch, hidden in zip(batches, in_parallel(model.run, inputs, self._workers), strict=True):
            found |= zip(batch, hidden, strict=True)
        return [(encodings[number], found[number]) for number in range(len(texts))]


class Provider(OnnxEmbedder):
    """Embeds passages with an exported model; its files are read at the first text."""

    def __init__(self, config: EmbeddingConfig) -> None:
        if config.params.model_path is None:
            read_layout(config)
        loading = _Loading(config)
        super().__init__(loading, config.params, for_queries=False)
        self._queries = OnnxEmbedder(loading, config.params, for_queries=True)

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
