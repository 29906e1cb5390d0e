"""The forward pass of MiniLM in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from devmem.errors import MissingExtraError
from devmem.model.items import Vector

try:
    import onnxruntime
except ImportError as error:
    raise MissingExtraError(
        feature="`backend: onnx` of the embedding provider 'minilm'",
        package="onnxruntime",
        extra="onnx",
        advice="Or take `backend: auto`, which runs on numpy where onnxruntime is not installed.",
    ) from error

_ERRORS_ONLY = 3
_NOT_IN_GRAPH = "pooler."
"""Weights for classifying a text; sentence embeddings do without."""


class OnnxBackend:
    """Runs the checked-in graph, which holds no weights, on the weights that it is given."""

    def __init__(self, weights: Mapping[str, Vector], *, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # onnxruntime does not copy the weights: they must live as long as the session.
        self._weights = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in weights.items()
            if not name.startswith(_NOT_IN_GRAPH)
        }
        options.add_external_initializers(list(self._weights), list(self._weights.values()))
        graph = files("devmem.embedding.minilm").joinpath("graph.onnx").read_bytes()
        self._session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384)."""
        lengths = np.array([len(ids) for ids in batch], dtype=np.int32)
        ids = np.zeros((len(batch), lengths.max()), dtype=np.int32)
        for row, text in zip(ids, batch, strict=True):
            row[: len(text)] = text
        inputs = {"ids": ids, "types": np.zeros_like(ids), "lengths": lengths}
        (hidden,) = self._session.run(["hidden"], inputs)
        return [tokens[:length] for tokens, length in zip(hidden, lengths, strict=True)]
