"""Reads the vectors that sentence-transformers made (`tools/embedding/make_golden_vectors.py`)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np

from devmem.stores import Vector

_FILE = Path(__file__).with_name("golden_minilm.json")


def read_golden() -> tuple[list[str], Vector]:
    """Return the texts and their vectors, shape (texts, 384)."""
    entries = json.loads(_FILE.read_text("utf-8"))
    rows = [np.frombuffer(base64.b64decode(entry["vector"]), dtype="<f4") for entry in entries]
    return [entry["text"] for entry in entries], np.stack(rows)
