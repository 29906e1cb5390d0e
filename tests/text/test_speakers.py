"""Speakers whom a question names, and whom it is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.cues import mentioned, subjects


@pytest.mark.parametrize(
    ("query", "speakers", "wanted"),
    [
        ("What did Caroline buy?", {"Caroline", "Melanie"}, {"Caroline"}),
        ("caroline's cat", {"Caroline", "Melanie"}, {"Caroline"}),
        ("Did Caroline and Melanie meet?", {"Caroline", "Melanie"}, {"Caroline", "Melanie"}),
        ("What does Ada like", {"Ada Lovelace", "Grace Hopper"}, {"Ada Lovelace"}),
        ("What does Hopper like", {"Grace Hopper"}, set()),
        ("张三喜欢什么", {"张三", "李四"}, {"张三"}),
        ("张开", {"张三"}, set()),
        # A role is no name, and neither is a small word: every question has some.
        ("what did the user say to the assistant", {"user", "assistant"}, set()),
        ("what will you tell me about a cat", {"Will", "Me", "A", "The Boss"}, set()),
        ("what did the boss say", {"The Boss"}, {"The Boss"}),
        ("anything", {"", "?!"}, set()),
        ("", {"Caroline"}, set()),
    ],
)
def test_whom_a_question_names(query: str, speakers: set[str], wanted: set[str]) -> None:
    assert mentioned(query, speakers) == wanted


@pytest.mark.parametrize(
    ("query", "named", "wanted"),
    [
        ("What did Ann tell Ben?", {"Ann", "Ben"}, {"Ann"}),
        ("What does Ben think about Ann's plan?", {"Ann", "Ben"}, {"Ben"}),
        ("Which of Ann's books did ben read?", {"Ann", "Ben"}, {"Ann"}),
        ("Do Ann and Ben like tea?", {"Ann", "Ben"}, {"Ann", "Ben"}),
        ("Who is Ann and also Ben’s doctor?", {"Ann", "Ben"}, {"Ann"}),
        ("Ann's and Ben's dog", {"Ann", "Ben"}, {"Ann", "Ben"}),
        ("What did Ann, Ben and Cleo tell Dora?", {"Ann", "Ben", "Cleo", "Dora"}, {"Ann", "Ben", "Cleo"}),
        ("What did Ann tell Ben and Cleo?", {"Ann", "Ben", "Cleo"}, {"Ann"}),
        ("What does Ada want from Hopper, G.?", {"Ada Lovelace", "Hopper, G."}, {"Ada Lovelace"}),
        # Nothing tells two people of one first name apart.
        ("What did Ann say?", {"Ann Lee", "Ann Ray"}, {"Ann Lee", "Ann Ray"}),
        # No part of another word is a name, nor is the same name later in the text another one.
        ("Did Benita's friend Ann call Ben about Ann?", {"Ann", "Ben"}, {"Ann"}),
        ("李娜对王芳说了什么?", {"李娜", "王芳"}, {"李娜"}),
        ("李娜和王芳喜欢什么?", {"李娜", "王芳"}, {"李娜", "王芳"}),
        # A name may be written in another way than the speaker's.
        ("What did Ann tell Dr Who?", {"Ann", "Dr. Who"}, {"Ann"}),
        ("What did Ann and Chris tell Ben?", {"Ann", "@chris", "Ben"}, {"Ann", "@chris"}),
        ("What did Ben tell Anns sister?", {"Ann", "Ben"}, {"Ben"}),
        ("What did Ann say?", {"Ann"}, {"Ann"}),
        # Whoever is addressed is not asked about, unless nobody else is named.
        ("Hey Ann, what did Ben say?", {"Ann", "Ben"}, {"Ben"}),
        ("Ann: what did Ben tell Cleo?", {"Ann", "Ben", "Cleo"}, {"Ben"}),
        ("李娜,王芳说了什么?", {"李娜", "王芳"}, {"李娜", "王芳"}),
        ("Ann, what did you buy?", {"Ann"}, {"Ann"}),
        ("Ann, Ben and Cleo like what?", {"Ann", "Ben", "Cleo"}, {"Ann", "Ben", "Cleo"}),
        ("What was said?", set(), set()),
    ],
)
def test_whom_a_question_is_about(query: str, named: set[str], wanted: set[str]) -> None:
    assert subjects(query, named) == wanted


_NAMES = st.lists(st.text(max_size=12) | st.sampled_from(["Ann", "Ann Lee", "王芳", "K."]), max_size=4)


@given(text=st.text(max_size=300), names=_NAMES)
def test_no_question_is_too_strange(text: str, names: list[str]) -> None:
    asked = f"{text} {' '.join(names)}"
    named = mentioned(asked, names)
    assert named <= set(names)
    assert subjects(asked, named) <= named
    assert bool(subjects(asked, named)) == bool(named)
