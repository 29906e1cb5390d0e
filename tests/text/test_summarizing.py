"""Choosing the sentences that say most of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text import count_words, extract_summary, split_sentences

TEXT = (
    "The launch moved to June. Hello there. The launch of the boat needs three tents. What a day. "
    "The boat comes from Lisbon for the launch. I like cake."
)


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a b-c, d", 3), ("it's -- fine!", 2), ("发布会", 3), ("五月3日", 4), ("\ud800", 0)]
)
def test_counting_words(text: str, count: int) -> None:
    assert count_words(text) == count


def test_what_most_of_the_text_is_about_is_kept_in_order() -> None:
    found = extract_summary(TEXT, 22)
    assert found == (
        "The launch moved to June. The launch of the boat needs three tents. The boat comes from Lisbon for the launch."
    )


def test_chinese() -> None:
    text = "发布会改到五月三日。天气很好。发布会的帐篷由李雷准备。我饿了。"
    assert extract_summary(text, 22) == "发布会改到五月三日。发布会的帐篷由李雷准备。"


def test_of_one_long_sentence_the_beginning_is_kept() -> None:
    assert extract_summary("word " * 50, 3) == "word word word"
    assert extract_summary("…… !!! ……" * 9, 3) == "…… !!! ……" * 9


@given(text=st.text(max_size=300), limit=st.integers(1, 40))
def test_a_summary_is_made_of_the_text_and_keeps_the_limit(text: str, limit: int) -> None:
    found = extract_summary(text, limit)
    assert count_words(found) <= limit
    assert bool(found) == bool(text.strip()) or count_words(text) > limit
    at = 0
    for sentence in split_sentences(found):
        assert (at := text.find(sentence.strip(), at)) >= 0
