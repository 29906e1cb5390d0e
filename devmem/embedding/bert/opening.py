"""Choosing the library that runs a BERT model."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from devmem.config.embedding import EmbeddingParams
from devmem.embedding.bert.backend import Backend, Rows
from devmem.model.items import Vector


def open_backend(params: EmbeddingParams, weights: Mapping[str, Vector], words: Rows) -> Backend:
    """Return onnxruntime where it is installed and nothing else is asked for, otherwise numpy.

    Args:
        params: name the backend and its threads.
        weights: all but the words, under the names of the official safetensors file.
        words: table of word embeddings.

    Raises:
        MissingExtraError: onnxruntime is asked for and not installed.
    """
    if params.backend == "numpy" or (params.backend == "auto" and find_spec("onnxruntime") is None):
        from devmem.embedding.bert.numpy_backend import NumpyBackend

        return NumpyBackend(weights, words, threads=params.threads)
    from devmem.embedding.bert.onnx_backend import OnnxBackend

    return OnnxBackend(weights, words, threads=params.threads)
