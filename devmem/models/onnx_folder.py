"""Models that were exported to ONNX: a folder as the hub has it, with the graph and `tokenizer.json`."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from devmem.config.store import EmbeddingConfig
from devmem.errors import EmbeddingError, MissingExtraError, ModelNotFoundError
from devmem.model.items import Vector
from devmem.models.embedder import CommonDirections, ModelIdentity, TokenEmbedding, WordFinder, sample_texts
from devmem.models.model_files import Prompts, mapped, read_json, read_prompts, read_tensors, sampled_digest
from devmem.models.transformer import LoadedOnce, TransformerEmbedder, open_graph, unlike
from devmem.text.files import expanded

__all__ = ["OnnxEmbedder"]


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
        layers = (layer.weight.tobytes() for layer in (*self.token_layers, *self.vector_layers))
        details = f"{self.pooling}:{self.max_tokens}{self.prompts.suffix}"
        digest = sampled_digest((self.graph, *self.weights), *layers, details.encode())
        return f"onnx:{name}@{digest[:12]}"


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


class _Loaded:
    """A loaded model."""

    def __init__(self, layout: Layout, *, threads: int) -> None:
        self._layout = layout
        try:
            tokenizers = import_module("tokenizers")
        except ImportError as error:
            raise MissingExtraError(
                feature="the embedding provider 'onnx'", package="tokenizers", extra="onnx"
            ) from error
        try:
            self._graph = open_graph(str(layout.graph), threads=threads)
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(layout.tokenizer))
        except Exception as error:  # both raise classes of their own for damaged files
            raise EmbeddingError(f"{layout.graph.parent}: the model cannot be loaded: {error}") from error
        self._tokenizer.enable_truncation(layout.max_tokens)
        self._tokenizer.no_padding()
        self._unknown = {self._tokenizer.token_to_id(name) for name in _UNKNOWN} - {None}
        self._inputs = [one.name for one in self._graph.get_inputs()]
        self._output = self._token_output()

    def _token_output(self) -> str:
        if unknown := sorted(set(self._inputs) - _INPUTS):
            raise EmbeddingError(f"{self._layout.graph}: unknown input {unknown[0]!r}; known: {', '.join(_INPUTS)}")
        ranks: dict[str, int] = {one.name: len(one.shape) for one in self._graph.get_outputs()}
        named = [name for name in (*_OUTPUTS, *ranks) if ranks.get(name) == _RANK]
        if not named:
            raise EmbeddingError(
                f"{self._layout.graph}: no output has token vectors (texts, tokens, dimension); it has "
                f"{sorted(ranks)}. Export the model without its pooling."
            )
        return named[0]

    def encode(self, text: str) -> Any:  # noqa: ANN401 - tokenizers has no types
        """Return the tokens of a text."""
        return self._tokenizer.encode(text)

    def run(self, batch: Sequence[Any]) -> list[Vector]:
        """Return each text's token vectors, shape (tokens, dimension), after the layers that tokens pass."""
        longest = max(len(one.ids) for one in batch)
        arrays = {name: np.zeros((len(batch), longest), dtype=np.int64) for name in _INPUTS}
        for row, one in enumerate(batch):
            arrays["input_ids"][row, : len(one.ids)] = one.ids
            arrays["attention_mask"][row, : len(one.ids)] = 1
            arrays["token_type_ids"][row, : len(one.ids)] = one.type_ids
        try:
            (hidden,) = self._graph.run([self._output], {name: arrays[name] for name in self._inputs})
        except Exception as error:  # onnxruntime raises classes of its own
            raise EmbeddingError(f"{self._layout.graph}: the model failed: {error}") from error
        rows = [np.asarray(tokens[: len(one.ids)], dtype=np.float32) for tokens, one in zip(hidden, batch, strict=True)]
        for layer in self._layout.token_layers:
            rows = [layer(each) for each in rows]
        return rows

    def pooled(self, hidden: Sequence[Vector]) -> Vector:
        """Return the texts' vectors, shape (texts, dimension), of any length, from those of their tokens."""
        vectors = np.stack([tokens[0] if self._layout.pooling == "cls" else tokens.mean(axis=0) for tokens in hidden])
        for layer in self._layout.vector_layers:
            vectors = layer(vectors)
        return vectors

    def token_embedding(
        self,
        text: str,
        prefix: str,
        encoding: Any,  # noqa: ANN401
        hidden: Vector,
        vector: Vector,
    ) -> TokenEmbedding:
        """Return a text's vector with the vectors of its tokens, without those of the prefix and the model's own."""
        special, spans = encoding.special_tokens_mask, encoding.offsets
        kept = [at for at, (_, end) in enumerate(spans) if not special[at] and end > len(prefix)]
        finder, places = WordFinder(prefix + text), [spans[at] for at in kept]
        known = finder.known_share(places, [encoding.ids[at] in self._unknown for at in kept])
        tokens = unlike(hidden[kept], self._common)
        return TokenEmbedding(vector=vector, tokens=tokens, words=finder.words(places), known=known)

    @cached_property
    def _common(self) -> CommonDirections | None:
        """Common part of all token vectors; None for a model that was trained to compare tokens."""
        if self._layout.late_interaction:
            return None
        return CommonDirections.of(
            [tokens[1:-1] for tokens in self.run([self.encode(text) for text in sample_texts()])]
        )


class OnnxEmbedder(TransformerEmbedder):
    """Embeds passages with an exported model; its files are read at the first text.

    Its identity has a digest of samples of the weights and of what else changes the vectors.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        if config.params.model_path is None:
            read_layout(config)
        super().__init__(config.params)
        self._layout = LoadedOnce(lambda: read_layout(config))

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model; raises what reading its files raises."""
        layout = self._layout.get()
        folder = layout.graph.parent
        return ModelIdentity(name=layout.identity(folder.parent.name if folder.name == "onnx" else folder.name))

    @property
    def prompts(self) -> Prompts:
        """Prompts of the folder, or of the parameters."""
        return self._layout.get().prompts

    def load(self) -> _Loaded:
        """Load the model."""
        return _Loaded(self._layout.get(), threads=self._params.threads)
