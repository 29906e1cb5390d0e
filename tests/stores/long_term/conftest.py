"""Long-term stores that open the same file each time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pytest

from devmem.stores import ModelIdentity, Vector
from devmem_stores.long_term import LongTermMemory
from tests.conftest import MakeStore

OpenStore = Callable[..., LongTermMemory]


@pytest.fixture
def open_store(make_store: MakeStore) -> OpenStore:
    return partial(make_store, LongTermMemory, memory_path="memory.db")


_ANGLE: Final = re.compile(r"at (-?[\d.]+) degrees")


class AngleEmbedder:
    """`anything at 30 degrees` is the direction of 30 degrees in the first two of the dimensions."""

    def __init__(self, dimension: int = 2) -> None:
        self.identity = ModelIdentity(name=f"testing:angle:{dimension}", dimension=dimension)
        self._dimension = dimension
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), dimension)."""
        self.calls.append(list(texts))
        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            found = _ANGLE.search(text)
            angle = math.radians(float(found[1]) if found else 90.0)
            row[:2] = math.cos(angle), math.sin(angle)
        return rows


def angle_of(squared_distance: float) -> float:
    """Return the degrees between unit vectors whose squared L2 distance this is."""
    return math.degrees(math.acos(1 - squared_distance / 2))
