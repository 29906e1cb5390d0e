"""Weights from a `.safetensors` file, mapped into memory and not copied."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import numpy as np

from devmem.embedding.minilm.files import WEIGHTS_SHA256, check_digest
from devmem.model.items import Vector

_LENGTH = 8
"""Bytes at the start of the file that hold the length of its JSON header, little-endian."""


def read_weights(path: Path) -> dict[str, Vector]:
    """Map the official weights into memory and give each float32 tensor under its name, read-only.

    The digest is of the mapped bytes themselves, so the checked content is the content that is used.

    Raises:
        ModelDamagedError: the file is not the official one.
    """
    with path.open("rb") as file:
        # An empty file cannot be mapped; reading it raises the same error as any other wrong content.
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b"")
    check_digest(path, mapped, WEIGHTS_SHA256)
    start = _LENGTH + int.from_bytes(mapped[:_LENGTH], "little")
    header = json.loads(bytes(mapped[_LENGTH:start]))
    weights: dict[str, Vector] = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            low, high = entry["data_offsets"]
            flat = np.frombuffer(mapped[start + low : start + high], dtype="<f4")
            weights[name] = flat.reshape(entry["shape"])
    return weights
