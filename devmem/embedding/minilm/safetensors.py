"""Weights from a `.safetensors` file, mapped into memory and not copied."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from devmem.embedding.minilm.files import HELP, WEIGHTS_SHA256
from devmem.embedding.official_files import check_digest, mapped
from devmem.model.items import Vector

_LENGTH = 8
"""Bytes at the start of the file that hold the length of its JSON header, little-endian."""


def read_weights(path: Path) -> dict[str, Vector]:
    """Map the official weights into memory and give each float32 tensor under its name, read-only.

    The digest is of the mapped bytes themselves, so the checked content is the content that is used.

    Raises:
        ModelDamagedError: the file is not the official one.
    """
    content = mapped(path)
    check_digest(path, content, WEIGHTS_SHA256, advice=HELP)
    start = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header = json.loads(bytes(content[_LENGTH:start]))
    weights: dict[str, Vector] = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            low, high = entry["data_offsets"]
            flat = np.frombuffer(content[start + low : start + high], dtype="<f4")
            weights[name] = flat.reshape(entry["shape"])
    return weights
