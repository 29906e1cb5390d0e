"""Reading a model's folder: where its graph is, how tokens become a vector, and how long a text may be."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from devmem.config.embedding import EmbeddingConfig
from devmem.embedding.model_files import mapped, sampled
from devmem.embedding.prompts import Prompts, read_json, read_prompts
from devmem.embedding.safetensors import read_tensors
from devmem.errors import EmbeddingError, ModelNotFoundError
from devmem.model.items import Vector

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
    folder = folder.expanduser()
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
