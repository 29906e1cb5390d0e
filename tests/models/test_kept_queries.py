"""Questions that were embedded a moment ago are not embedded again."""

from __future__ import annotations

import pytest

from devmem.errors import EmbeddingUnavailableError
from devmem.models.embedder import embed_query
from devmem.testing import FailingEmbedder, HashEmbedder


class Unhashable(HashEmbedder):
    """As a plugin's may be."""

    __hash__ = None  # type: ignore[assignment]


def test_a_question_is_embedded_once_by_each_embedder() -> None:
    first, second, unhashable = HashEmbedder(), HashEmbedder(), Unhashable()
    assert embed_query(first, "When?")[0] is embed_query(first, "When?")[0]
    for each in (second, unhashable, unhashable):
        embed_query(each, "When?")
    assert first.texts == second.texts == ["When?"]
    assert unhashable.texts == ["When?", "When?"], "without a hash it is asked each time"


def test_a_failure_is_not_kept() -> None:
    embedder = FailingEmbedder()
    with pytest.raises(EmbeddingUnavailableError):
        embed_query(embedder, "When?")
    embedder.recover()
    assert embed_query(embedder, "When?")[0].tolist() == embedder.vector("When?").tolist()
