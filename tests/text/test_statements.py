"""Statements of one subject with another value are told from those that only look alike."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.statements import is_update

DATA = Path(__file__).parents[1] / "data" / "updates.jsonl"
"""60 changed facts, and 60 that are similar but not changed; 72 in English and 48 in Chinese."""
PAIRS = DATA.with_name("statement_pairs.jsonl")
"""More pairs, written without a look at the rules: requests, tickets, chapters, versions, addresses, two people."""
CONVERSATION = Path(__file__).parents[2] / "configs" / "demo" / "conversation.jsonl"


def test_precision_and_recall_on_the_set() -> None:
    """A wrong mark does more harm than a missing one."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    assert (sum(row["update"] for row in rows), len(rows)) == (60, 120)
    found = [row for row in rows if is_update(row["older"], row["newer"])]
    assert found == [row for row in rows if row["update"]]


def test_nothing_else_is_taken_for_a_change() -> None:
    """Requests, identifiers, events and two people's facts supersede nothing; 355 pairs, and 62 that do."""
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    assert [sum(row["update"] is kind for row in rows) for kind in (False, True)] == [355, 62]
    found = [row for row in rows if is_update(row["older"], row["newer"])]
    assert [row for row in found if not row["update"]] == []
    assert len(found) >= 56


def test_what_two_people_say_of_themselves_is_not_of_one_subject() -> None:
    assert is_update("I live in Berlin.", "I live in Hamburg.")
    assert not is_update("I live in Berlin.", "I live in Hamburg.", same_speaker=False)
    assert is_update("The launch is on May 5th.", "The launch moved to June 2nd.", same_speaker=False)


def test_the_changed_facts_of_the_demo_are_found_and_no_others() -> None:
    """Deadline, place, phone number, speaker and budget."""
    texts = {}
    for line in CONVERSATION.read_text(encoding="utf-8").splitlines():
        turn = json.loads(line)
        texts[turn["id"]] = turn["text"]
    found = [(one, other) for one, other in combinations(texts, 2) if is_update(texts[one], texts[other])]
    assert found == [
        ("demo-03", "demo-30"),
        ("demo-05", "demo-24"),
        ("demo-08", "demo-35"),
        ("demo-13", "demo-28"),
        ("demo-16", "demo-37"),
    ]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The launch is on May 5th.", "The launch moved from May 5th to June 2nd."),
        ("The budget is 500 euros.", "We got more: the budget is 700 euros now."),
        ("Priya is allergic to peanuts.", "Priya is not allergic to peanuts."),
        ("会议在星期三。", "好消息:会议改到星期五了。"),
    ],
)
def test_what_changed(older: str, newer: str) -> None:
    assert is_update(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The launch is on May 5th.", "The launch is on May 5th."),
        ("The launch is on May 5th.", "Is the launch on May 6th?"),
        ("The launch is on May 5th.", "发布会在五月六日。"),
        ("", "The launch is on May 5th."),
        ("5", "6"),
    ],
)
def test_what_is_no_change(older: str, newer: str) -> None:
    assert not is_update(older, newer)


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_compared(one: str, other: str) -> None:
    """Nothing is raised, and no text updates itself."""
    assert is_update(one, other) in (True, False)
    assert not is_update(one, one)


@pytest.mark.parametrize("newer", ["The report needs 20 pages.", "By 5 May the report needs pages."])
def test_a_value_that_only_one_of_two_texts_has_raises_nothing(newer: str) -> None:
    older = "The report needs pages."
    assert is_update(older, newer) in (True, False)
    assert is_update(newer, older) in (True, False)
