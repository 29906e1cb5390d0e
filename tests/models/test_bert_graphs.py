"""The checked-in graphs are what their tool makes."""

from __future__ import annotations

from importlib.resources import files

import onnx
import pytest

from tools.embedding.build_bert_graphs import LAYERS, build


@pytest.mark.parametrize("layers", LAYERS)
def test_the_graph_is_what_the_tool_makes(layers: int) -> None:
    content = files("devmem.models").joinpath("data", f"graph_{layers}.onnx").read_bytes()
    assert onnx.load_model_from_string(content) == build(layers)
    assert len(content) < 50_000
