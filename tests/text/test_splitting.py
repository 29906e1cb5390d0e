"""Sentences, shortening, and what a text costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.analysis import estimate_tokens, shorten, split_sentences
from tests.cases import cases

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=200) | st.text('ab .!?。！；\n")”', max_size=200)


@given(text=TEXTS)
def test_sentences_joined_give_the_text_back(text: str) -> None:
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert all(pieces)


@pytest.mark.parametrize(
    ("text", "wanted"),
    cases("text_splitting", "where_sentences_end"),
)
def test_where_sentences_end(text: str, wanted: list[str]) -> None:
    assert split_sentences(text) == wanted


@given(text=TEXTS, limit=st.integers(0, 120))
def test_a_shortened_text_never_exceeds_its_limit(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text.strip() or short.endswith("…") or limit == 0
    assert text.strip().startswith(short.removesuffix("…").rstrip())


def test_whole_sentences_are_kept() -> None:
    assert shorten("One sentence. Another one. A third.", 30) == "One sentence. Another one.…"
    assert shorten("short enough", 12) == "short enough"


def test_a_long_first_sentence_is_cut_at_a_word() -> None:
    assert shorten("one two three four five six seven eight", 20) == "one two three four…"
    assert shorten("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("hello world", 2, 3),
        ("internationalisation", 2, 5),
        ("会议改到星期五。", 8, 8),
        ("naïve\u3000テスト", 5, 8),
        ("a, b; c!", 5, 7),
    ],
)
def test_what_a_text_costs(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most
