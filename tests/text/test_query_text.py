"""Messages and the part of them that asks something."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem.text.analysis import query_terms
from devmem.text.query_text import REST_SHARE, QueryText
from tests.cases import cases
from tests.generated import examples


@pytest.mark.parametrize(
    ("message", "asked"),
    cases("text_query_text", "small_talk_is_told_from_the_question"),
)
def test_small_talk_is_told_from_the_question(message: str, asked: str) -> None:
    found = QueryText.of(message)
    assert found.asked == asked
    weights = found.term_weights()
    assert {weights[term] for term in query_terms(asked) if len(term) > 1} == {1.0}
    assert {weights[term] for term in set(query_terms(found.rest)) - set(query_terms(asked)) if len(term) > 1} == {
        REST_SHARE
    }


@pytest.mark.parametrize(
    "message",
    cases("text_query_text", "a_message_counts_as_a_whole"),
)
def test_a_message_counts_as_a_whole(message: str) -> None:
    """Where nothing asks, or the question needs the rest."""
    assert QueryText.of(message) == QueryText(message)


def test_a_question_in_a_long_text_is_not_what_it_asks() -> None:
    """Such as an article, a log, or the answer of another agent."""
    article = "The harbour was built early.\n" * 40
    assert QueryText.of(f"{article}Why do big ships sink?").rest == ""
    assert QueryText.of(f"{article[:290]}Why do big ships sink?").asked == "Why do big ships sink?"


_PIECES = st.sampled_from(
    [
        "Is it?",
        "By the way, ",
        "When is the launch? ",
        "Dr. ",
        "我们去了公园。",
        "对了，谁来？",
        "Nice! ",
        "\n",
        "¿Qué? ",
    ]
)


@given(st.lists(_PIECES | st.text(string.printable, max_size=8), max_size=8).map("".join))
@settings(max_examples=examples(300))
def test_no_word_is_lost(message: str) -> None:
    found = QueryText.of(message)
    assert sorted("".join((found.asked + found.rest).split())) == sorted("".join(message.split()))
    assert found.asked.strip() or not message.strip()
    assert set(found.term_weights()) >= set(query_terms(message)) or not found.rest
