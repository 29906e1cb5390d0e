"""The ranking over all stores that DevAll has, by hand and as it comes out of DevAll itself."""

from __future__ import annotations

import pytest

from devmem import Hit, MemoryItem
from devmem.search import devall_score, rank_as_devall

DAY = 24.0


@pytest.mark.parametrize(
    ("age_hours", "length", "wanted"),
    [(0, 10, 0.35), (0, 100, 0.70), (0, 300, 0.56), (15 * DAY, 100, 0.35), (60 * DAY, 100, 0.07)],
)
def test_age_and_length(age_hours: float, length: int, wanted: float) -> None:
    assert devall_score("x" * length, "nothing in common", age_hours) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("text", "query", "wanted"),
    [
        ("the key is under the flowerpot", "the key", 0.7 + 0.3),
        ("the key is under the flowerpot", "the train key", 0.7 + 0.3 * 2 / 3),
        ("The KEY is under the flowerpot", "the Key", 0.7 + 0.3),
        ("the key is under the flowerpot", "", 0.7),
    ],
)
def test_shared_words(text: str, query: str, wanted: float) -> None:
    assert devall_score(text, query, 0.0) == pytest.approx(wanted)


def test_it_takes_the_place_of_the_stores_own_score() -> None:
    """Each store's hits are put in its order, and keep their other signals."""
    now = 1_700_000_000.0
    old = Hit(item=MemoryItem(content_summary="x" * 50, created_at=now - 25 * DAY * 3600), score=0.9, similarity=0.9)
    new = Hit(item=MemoryItem(content_summary="y" * 50, created_at=now), score=0.1, similarity=0.1)
    ((first, second), empty) = rank_as_devall([[old, new], []], "query", now)
    assert (first.item, second.item, empty) == (new.item, old.item, [])
    assert first.score == pytest.approx(0.7)
    assert second.score == pytest.approx(0.7 * (1 - 25 / 30))
    assert second.similarity == 0.9
