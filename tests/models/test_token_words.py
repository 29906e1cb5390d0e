"""The words of tokens: known ones, spelled out ones, and those of scripts without spaces."""

from __future__ import annotations

import pytest

from devmem.models.embedder import Span, WordFinder


def letters(text: str) -> list[Span]:
    return [(at, at + 1) for at in range(len(text)) if text[at] != " "]


@pytest.mark.parametrize(
    ("text", "spans", "unknown", "share"),
    [
        ("tea time", [(0, 3), (4, 8)], [], 1.0),
        ("unbelievable tea", [(0, 2), (2, 7), (7, 12), (13, 16)], [], 1.0),
        ("сестра tea", [*letters("сестра"), (7, 10)], [], 1 / 7),
        ("发布会改到六月", letters("发布会改到六月"), [], 1.0),
        ("发布会 tea", [(0, 1), (1, 2), (2, 3), (4, 7)], [0], 1 / 4),
        ("tea ☃ time", [(0, 3), (4, 5), (6, 10)], [1], 1 / 3),
        ("发布会。12", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6)], [0, 1], 0.0),
        ("12:30", [(0, 2), (2, 3), (3, 5)], [], 1.0),
        ("", [], [], 1.0),
    ],
)
def test_share_of_known_words(text: str, spans: list[Span], unknown: list[int], share: float) -> None:
    marks = [at in unknown for at in range(len(spans))]
    assert WordFinder(text).known_share(spans, marks) == pytest.approx(share)
