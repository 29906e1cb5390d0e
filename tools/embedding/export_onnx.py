"""Writes the installed all-MiniLM-L6-v2 as a folder for `provider: onnx`, as the hub has exported models.

    python -m tools.embedding.export_onnx FOLDER

The graph is that of `tools.embedding.build_bert_graphs`, with the model's weights in it and token ids as its inputs.
Needs the package `onnx`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from devmem.models.minilm import find_model
from devmem.models.model_files import mapped, read_tensors
from tools.embedding.build_bert_graphs import build

_LAYERS: Final = 6
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_TABLES: Final = tuple(f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type"))
_FILES: Final = (
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "1_Pooling/config.json",
)


def export(folder: Path) -> Path:
    """Write the graph and the files beside it; return the folder.

    Raises:
        ModelNotFoundError: the model is not installed.
    """
    source = find_model(None)
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, folder / name)
    weights = read_tensors(mapped(source / "model.safetensors"))
    model = build(_LAYERS)
    graph = model.graph
    declared = [each.name for each in graph.initializer]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(numpy_helper.from_array(weights[name], name) for name in (*declared, *_TABLES))
    constants = {"first": np.array(0), "one": np.array(1), "second_axis": np.array([1])}
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in _INPUTS)
    encoder = list(graph.node)
    del graph.node[:]
    graph.node.extend([*_embedding(), *encoder])
    graph.node[-1].output[0] = graph.output[0].name = "last_hidden_state"
    onnx.save(model, str(folder / "model.onnx"))
    return folder


def _embedding() -> list[NodeProto]:
    """Return what makes the encoder's inputs, `rows` and `lengths`, of the ids."""
    words, positions, types = _TABLES
    return [
        helper.make_node("Shape", ["input_ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["tokens"]),
        helper.make_node("Range", ["first", "tokens", "one"], ["places"]),
        helper.make_node("Gather", [words, "input_ids"], ["of_words"]),
        helper.make_node("Gather", [positions, "places"], ["of_positions"]),
        helper.make_node("Gather", [types, "token_type_ids"], ["of_types"]),
        helper.make_node("Add", ["of_words", "of_positions"], ["of_placed_words"]),
        helper.make_node("Add", ["of_placed_words", "of_types"], ["rows"]),
        helper.make_node("ReduceSum", ["attention_mask", "second_axis"], ["counted"], keepdims=0),
        helper.make_node("Cast", ["counted"], ["lengths"], to=TensorProto.INT32),
    ]


def main() -> None:
    """Export into the folder that the command line names."""
    print(export(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
