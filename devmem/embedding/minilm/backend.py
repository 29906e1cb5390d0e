"""The backend protocol, and the sizes of the model's layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from devmem.model.items import Vector

LAYERS, HEADS, WIDTH = 6, 12, 384
LAYER_NORM_EPSILON = 1e-12


class Backend(Protocol):
    """Runs the model on token ids; safe to call from several threads."""

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384); no text is empty."""
        ...
