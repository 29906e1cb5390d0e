"""The forward pass in onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from devmem.errors import MissingExtraError
from devmem.model.items import Vector
from devmem.models.bert import WIDTH, Rows, layers_of, places_of

# Its official builds record and send telemetry from 1.32 on, unless this is set before they are loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
try:
    import onnxruntime
except ImportError as error:
    raise MissingExtraError(
        feature="`backend: onnx` of an embedding provider",
        package="onnxruntime",
        extra="onnx",
        advice="Or take `backend: auto`, which runs on numpy where onnxruntime is not installed.",
    ) from error

_ERRORS_ONLY = 3
_IN_GRAPH = ("embeddings.LayerNorm.", "encoder.")
"""Prefixes of the weights that the graph reads; it starts from the embeddings of words and positions."""


class OnnxBackend:
    """Runs a checked-in graph, which holds no weights, on the weights that it is given."""

    def __init__(self, weights: Mapping[str, Vector], words: Rows, *, threads: int) -> None:
        """Take the model's weights under their official names, and its table of words."""
        self._words, self._places = words, places_of(weights)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # onnxruntime does not copy the weights: they must live as long as the session.
        self._weights = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in weights.items()
            if name.startswith(_IN_GRAPH)
        }
        options.add_external_initializers(list(self._weights), list(self._weights.values()))
        graph = files("devmem.models").joinpath("data", f"graph_{layers_of(weights)}.onnx").read_bytes()
        self._session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384)."""
        lengths = np.array([len(ids) for ids in batch], dtype=np.int32)
        rows = np.zeros((len(batch), lengths.max(), WIDTH), dtype=np.float32)
        for row, ids in zip(rows, batch, strict=True):
            row[: len(ids)] = self._words[ids] + self._places[: len(ids)]
        (hidden,) = self._session.run(["hidden"], {"rows": rows, "lengths": lengths})
        return [tokens[:length] for tokens, length in zip(hidden, lengths, strict=True)]
