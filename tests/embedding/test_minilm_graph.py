"""The checked-in graph is what its tool makes."""

from __future__ import annotations

from importlib.resources import files

import onnx

from tools.embedding.build_minilm_graph import build


def test_the_graph_is_what_the_tool_makes() -> None:
    content = files("devmem.embedding.minilm").joinpath("graph.onnx").read_bytes()
    assert onnx.load_model_from_string(content) == build()
    assert len(content) < 50_000
