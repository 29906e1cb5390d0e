"""Whether a model made embeddings that DevAll (ChatDev 2) stored: some of them are made again and compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from devmem.model.items import MemoryItem, Vector
from devmem.models.embedder import Embedder

_SPACES: Final = re.compile(r"\s+")
_SYMBOLS: Final = re.compile(r"[^\w\s]")
_LONGEST: Final = 8191
"""Characters of a text that DevAll sends to the model, unless configured otherwise."""

_PROBES: Final = 3
_SAME: Final = 0.98
"""Cosine from which two embeddings of a text are of one model: rounding and number formats cost less."""


def devall_text(text: str) -> str:
    """Return what DevAll embeds of a text: its words, without punctuation, symbols and line breaks."""
    return _SPACES.sub(" ", _SYMBOLS.sub(" ", _SPACES.sub(" ", text))).strip()[:_LONGEST]


def made_by(embedder: Embedder, items: Sequence[MemoryItem]) -> bool:
    """Report whether the model made the embeddings of items that DevAll stored, as the first, the middle and last show.

    Items without an embedding, with one of zeros, or with no word in their text show nothing; without any other the
    answer is no.

    Raises:
        EmbeddingError: the model does not answer.
    """
    telling = [item for item in items if _unit(item.embedding) is not None and devall_text(item.content_summary)]
    if not telling:
        return False
    places = sorted({round(place) for place in np.linspace(0, len(telling) - 1, _PROBES)})
    probes = [telling[place] for place in places]
    made = embedder.embed([devall_text(item.content_summary) for item in probes])
    return all(_same(_unit(item.embedding), now) for item, now in zip(probes, made, strict=True))


def _same(then: Vector | None, now: Vector) -> bool:
    return then is not None and then.shape == now.shape and float(then @ now) >= _SAME


def _unit(vector: Vector | None) -> Vector | None:
    length = 0.0 if vector is None else float(np.linalg.norm(vector))
    return None if vector is None or length == 0 or not np.isfinite(length) else vector / np.float32(length)
