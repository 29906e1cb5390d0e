"""Reads the body of an answer to `POST /embeddings`, trusting nothing in it."""

from __future__ import annotations

import json
from base64 import b64decode

import numpy as np
from pydantic import BaseModel, ValidationError

from devmem.errors import EmbeddingError
from devmem.model.items import Vector


class _Entry(BaseModel):
    embedding: list[float] | str
    """Numbers; or their bytes as float32 in base64, which some services send whatever they are asked for."""
    index: int | None = None


class _Answer(BaseModel):
    data: list[_Entry]


def read_answer(body: bytes, *, count: int, address: str) -> Vector:
    """Return the vectors in the order of the texts, shape (count, dimension).

    Entries come in any order and name their text by `index`; those without one come in order.

    Raises:
        EmbeddingError: the body is not an answer, not one vector a text, or vectors of unequal length.
    """
    try:
        entries = _Answer.model_validate(json.loads(body)).data
    except (ValidationError, ValueError, RecursionError) as error:
        # RecursionError: arrays in arrays, deeper than Python reads.
        raise EmbeddingError(f"{address}: not an answer to an embedding request: {_shown(body)}") from error
    rows = {place if entry.index is None else entry.index: _row(entry, address) for place, entry in enumerate(entries)}
    if len(entries) != count or rows.keys() != set(range(count)):
        raise EmbeddingError(f"{address}: asked to embed {count} texts, got vectors for {sorted(rows)}")
    widths = {len(row) for row in rows.values()}
    if len(widths) != 1:
        raise EmbeddingError(f"{address}: the vectors of one answer have different lengths: {sorted(widths)}")
    return np.array([rows[number] for number in range(count)])


def _row(entry: _Entry, address: str) -> Vector:
    if isinstance(entry.embedding, list):
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which the caller refuses
            return np.array(entry.embedding, dtype=np.float32)
    try:
        return np.frombuffer(b64decode(entry.embedding, validate=True), dtype="<f4").astype(np.float32)
    except ValueError as error:
        raise EmbeddingError(f"{address}: a vector is a text, but not float32s in base64: {error}") from error


def _shown(body: bytes) -> str:
    return repr(body[:200].decode("utf-8", "replace"))
