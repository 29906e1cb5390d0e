"""Tensors of a `.safetensors` file, read where they are and not copied."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from devmem.model.items import Vector

_LENGTH: Final = 8
"""Bytes at the start of the file that hold the length of its JSON header, little-endian."""
_TYPES: Final = {"F32": "<f4", "F16": "<f2"}


def read_tensors(content: memoryview) -> dict[str, Vector]:
    """Return the floating-point tensors by name, as float32; those stored as float32 are read-only views.

    Raises:
        ValueError: it is no such file.
    """
    start = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header: dict[str, Any] = json.loads(bytes(content[_LENGTH:start]))
    tensors: dict[str, Vector] = {}
    for name, entry in header.items():
        if entry.get("dtype") in _TYPES:
            low, high = entry["data_offsets"]
            flat = np.frombuffer(content[start + low : start + high], dtype=_TYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"]).astype(np.float32, copy=False)
    return tensors
