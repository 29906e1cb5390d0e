"""Questions that were embedded a moment ago are not embedded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from devmem.errors import EmbeddingError
from devmem.models.embedder import embed_query
from devmem.stores import ModelIdentity, Vector


class Counting:
    """Counts what it embeds; fails where it is down."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_down = False

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(name="counting", dimension=2)

    def embed(self, texts: Sequence[str]) -> Vector:
        if self.is_down:
            raise EmbeddingError("down")
        self.asked.extend(texts)
        return np.full((len(texts), 2), len(self.asked), dtype=np.float32)


@dataclass
class Unhashable(Counting):
    """As a plugin's may be."""

    asked: list[str] = field(default_factory=list)
    is_down: bool = False


def test_a_question_is_embedded_once_by_each_embedder() -> None:
    first, second = Counting(), Counting()
    assert embed_query(first, "When?")[0] is embed_query(first, "When?")[0]
    embed_query(second, "When?")
    assert first.asked == second.asked == ["When?"]


def test_a_failure_is_not_kept() -> None:
    embedder = Counting()
    embedder.is_down = True
    with pytest.raises(EmbeddingError):
        embed_query(embedder, "When?")
    embedder.is_down = False
    assert embed_query(embedder, "When?")[0].tolist() == [1.0, 1.0]


def test_an_embedder_without_a_hash_is_asked_each_time() -> None:
    embedder = Unhashable()
    embed_query(embedder, "When?")
    embed_query(embedder, "When?")
    assert embedder.asked == ["When?", "When?"]
