"""Writes `devmem/models/data/graph_LAYERS.onnx`: the models' computation without their weights.

    python -m tools.embedding.build_bert_graphs

A graph starts from the embeddings of words and positions. It names each weight as the official safetensors file does
and holds only its shape; the numbers are given to onnxruntime when it loads the graph. Needs the package `onnx`, which
nothing needs at run time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from devmem.models.transformer import WIDTH

FOLDER = Path("devmem/models/data")
LAYERS = (6, 12)
"""Numbers of layers of all-MiniLM-L6-v2 and of multilingual-e5-small."""

_WIDE = 1536
_HEADS = 12
_LAYER_NORM_EPSILON = 1e-12
_FUSED = "com.microsoft"
"""onnxruntime's own operators: one node where the standard ones need ten."""


class _Graph:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def add(self, kind: str, inputs: list[str], output: str, *, domain: str = "", **attributes: Any) -> str:  # noqa: ANN401 - as onnx takes them
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def weight(self, name: str, *shape: int) -> str:
        """Declare a weight whose values are supplied at load; its location names no file."""
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="given-at-load")
        self.weights.append(tensor)
        return name

    def matrix(self, name: str, wide: int, narrow: int) -> str:
        """Declare a matrix (out, in) and return it transposed; onnxruntime transposes it once, at load."""
        return self.add("Transpose", [self.weight(name, wide, narrow)], f"{name}.T", perm=[1, 0])

    def norm(self, name: str) -> list[str]:
        return [self.weight(f"{name}.LayerNorm.{part}", WIDTH) for part in ("weight", "bias")]


def _attend(graph: _Graph, name: str, hidden: str) -> str:
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    matrices = [graph.matrix(f"{part}.weight", WIDTH, WIDTH) for part in parts]
    biases = [graph.weight(f"{part}.bias", WIDTH) for part in parts]
    qkv = graph.add("Concat", matrices, f"{name}.qkv.weight", axis=1)
    bias = graph.add("Concat", biases, f"{name}.qkv.bias", axis=0)
    return graph.add("Attention", [hidden, qkv, bias, "lengths"], f"{name}.attended", domain=_FUSED, num_heads=_HEADS)


def _layer(graph: _Graph, name: str, hidden: str) -> str:
    attended = _attend(graph, name, hidden)
    mixed = _product(graph, f"{name}.attention.output", attended, WIDTH, WIDTH)
    hidden = _add_and_norm(graph, f"{name}.attention.output", mixed, hidden)
    wide = _product(graph, f"{name}.intermediate", hidden, _WIDE, WIDTH)
    bias = graph.weight(f"{name}.intermediate.dense.bias", _WIDE)
    active = graph.add("BiasGelu", [wide, bias], f"{name}.active", domain=_FUSED)
    narrow = _product(graph, f"{name}.output", active, WIDTH, _WIDE)
    return _add_and_norm(graph, f"{name}.output", narrow, hidden)


def _product(graph: _Graph, name: str, rows: str, wide: int, narrow: int) -> str:
    return graph.add("MatMul", [rows, graph.matrix(f"{name}.dense.weight", wide, narrow)], f"{name}.product")


def _add_and_norm(graph: _Graph, name: str, rows: str, skipped: str) -> str:
    bias = graph.weight(f"{name}.dense.bias", WIDTH)
    inputs = [rows, skipped, *graph.norm(name), bias]
    return graph.add("SkipLayerNormalization", inputs, f"{name}.sum", domain=_FUSED, epsilon=_LAYER_NORM_EPSILON)


def build(layers: int) -> ModelProto:
    """Make the model.

    In: `rows`, embeddings of words and positions, shape (texts, tokens, 384), and `lengths`, shape (texts,).
    Out: `hidden`, shape (texts, tokens, 384).
    """
    graph = _Graph()
    inputs = ["rows", *graph.norm("embeddings")]
    hidden = graph.add("LayerNormalization", inputs, "embedded", axis=-1, epsilon=_LAYER_NORM_EPSILON)
    for number in range(layers):
        hidden = _layer(graph, f"encoder.layer.{number}", hidden)
    graph.add("Identity", [hidden], "hidden")
    model = helper.make_model(
        _proto(graph, layers),
        producer_name="devmem",
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)],
    )
    model.ir_version = 8
    return model


def _proto(graph: _Graph, layers: int) -> GraphProto:
    shape: list[str | int | None] = ["texts", "tokens", WIDTH]
    return helper.make_graph(
        graph.nodes,
        f"bert_{layers}",
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, shape[:1]),
        ],
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, shape)],
        initializer=graph.weights,
    )


def main() -> None:
    """Write the files; run from the repository's root."""
    for layers in LAYERS:
        target = FOLDER / f"graph_{layers}.onnx"
        content = build(layers).SerializeToString(deterministic=True)
        target.write_bytes(content)
        print(f"{target}: {len(content)} bytes")


if __name__ == "__main__":
    main()
