"""Answers of a model that was asked for facts: only what the turn says is kept, whatever the answer claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.models.facts import DropReason, normal, read_facts, stands_in
from devmem.stores import Said
from tests.cases import cases

_RECORDED = Path(__file__).parents[1] / "data" / "facts" / "answers.jsonl"
_CASES = [json.loads(line) for line in _RECORDED.read_text(encoding="utf-8").splitlines()]
_SAID_AT = 1_780_000_000.0
"""28 May 2026."""


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["case"])
def test_recorded_answers(case: dict[str, Any]) -> None:
    """Each statement is kept or dropped for the reason in the file, and said by whoever the quote is of."""
    said = [Said(speaker, text) for speaker, text in case["said"]]
    kept, dropped = read_facts(case["answer"], said, said_at=_SAID_AT, limit=4)
    assert [[one.subject, one.attribute, one.value, one.speaker] for one in kept] == case["kept"]
    assert {reason.name: count for reason, count in dropped.items()} == case["dropped"]


def test_times_are_relative_to_the_turn() -> None:
    """The words have to be in the quote."""
    answer = _CASES[0]["answer"]
    (moved, aged), _ = read_facts(answer, [Said(*one) for one in _CASES[0]["said"]], said_at=_SAID_AT, limit=4)
    assert moved.time == "last week"
    assert moved.period is not None
    assert 0 < _SAID_AT - moved.period.start < 14 * 86_400
    assert (aged.time, aged.period) == ("", None)


def test_a_huge_or_deep_answer_is_not_read() -> None:
    """As of a model that repeats itself until its limit."""
    fact = {"subject": "Ann", "attribute": "city", "value": "Rome", "quote": "I live in Rome", "time": None}
    said = [Said("Ann", "I live in Rome.")]
    for body in (
        '{"facts": [' + "1," * 5_000_000 + "1]}",
        json.dumps({"facts": [fact] * 100_000}),
        "{" * 10_000_000,
        '{"facts": ' + "[" * 40_000 + "]" * 40_000 + "}",
    ):
        kept, dropped = read_facts(body, said, said_at=_SAID_AT, limit=4)
        assert kept == []
        assert dropped == {DropReason.UNREADABLE: 1}


_TEXTS = st.text(alphabet="ab1.,?! \n不吃I'mtno\u202e{}[]\":\uff11", max_size=40)


@given(
    st.lists(st.tuples(_TEXTS, _TEXTS), max_size=3),
    st.lists(
        st.one_of(
            st.dictionaries(
                st.sampled_from(["subject", "attribute", "value", "quote", "time"]), _TEXTS | st.none() | st.integers()
            ),
            _TEXTS,
        ),
        max_size=6,
    ),
    st.integers(0, 400),
)
def test_whatever_comes_nothing_is_kept_that_the_turn_does_not_say(
    said: list[tuple[str, str]], facts: list[Any], cut: int
) -> None:
    """Any statements, whole or truncated: quotes are of a text, values of their quote, and all others are counted."""
    texts = [Said(*one) for one in said]
    whole = json.dumps({"facts": facts})
    kept, dropped = read_facts(whole, texts, said_at=_SAID_AT, limit=4)
    assert len(kept) + dropped.total() == len(facts)
    for one in kept:
        assert any(one.quote in normal(text.text) for text in texts if normal(text.speaker) == one.speaker)
        assert one.value in one.quote
        assert one.value.strip()
    if cut < len(whole):
        shorter, reasons = read_facts(whole[:cut], texts, said_at=_SAID_AT, limit=4)
        assert shorter == []
        assert reasons.total() == 1


@pytest.mark.parametrize(
    ("part", "text", "found"),
    cases("models_fact_reading", "parts_of_words_and_numbers_do_not_count"),
)
def test_parts_of_words_and_numbers_do_not_count(part: str, text: str, found: bool) -> None:
    assert stands_in(part, text) is found
