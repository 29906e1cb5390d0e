"""A tiny exported model: a table of word vectors as its graph, and a tokenizer of whole words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH: Final = 16
WORDS: Final = tuple(
    "query passage : ann moved the launch to june 2nd . she drinks oolong x open settings choose a language meeting "
    "about budget took two hours when is that ? 1 2".split()
)
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def table() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Vectors of the words, which have much in common."""
    rng = np.random.default_rng(3)
    return (rng.normal(size=(len(_SPECIAL) + len(WORDS), WIDTH)) + 2).astype(np.float32)


def write_model(folder: Path, files: Mapping[str, Any] | None = None, *, graph: str = "model.onnx") -> Path:
    """Write a model's folder with further JSON files beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), "utf-8")
    (folder / graph).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(_graph(), str(folder / graph))
    _tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def _graph() -> onnx.ModelProto:
    """Look each token up, and add a little of the text's mean to it, which the mask decides."""
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["sum"], keepdims=1),
        helper.make_node("ReduceSum", ["column", "middle"], ["count"], keepdims=1),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("Mul", ["mean", "share"], ["context"]),
        helper.make_node("Add", ["masked", "context"], ["last_hidden_state"]),
    ]
    constants = {"words": table(), "last": np.array([2]), "middle": np.array([1]), "share": np.array([0.2], np.float32)}
    shape: list[str | int | None] = ["texts", "tokens"]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, WIDTH])],
        initializer=[numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def _tokenizer() -> Tokenizer:
    vocabulary = {word: number for number, word in enumerate((*_SPECIAL, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def write_dense(folder: Path, weight: np.ndarray[Any, np.dtype[np.float32]], *, activation: str = "Identity") -> None:
    """Write a dense layer as sentence-transformers does."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "linear.Identity" if activation == "Identity" else f"activation.{activation}"
    (folder / "config.json").write_text(json.dumps({"activation_function": f"torch.nn.modules.{kind}"}), "utf-8")
    entry = {"linear.weight": {"dtype": "F32", "shape": weight.shape, "data_offsets": [0, weight.nbytes]}}
    header = json.dumps(entry).encode()
    content = len(header).to_bytes(8, "little") + header + weight.astype("<f4").tobytes()
    (folder / "model.safetensors").write_bytes(content)
