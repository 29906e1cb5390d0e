"""Signs in a text: that it asks, that it tells a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.cues import Cue, asks_when, cues_of
from tests.cases import cases


@pytest.mark.parametrize(
    ("cue", "having", "lacking"),
    [
        (
            Cue.IS_QUESTION,
            [
                "Where is it?",
                "Really?!?",
                'He asked "why?"',
                "真的吗？",
                "(is it?)",
                "See? [2023-05-08] ",
                "A long story. " * 50 + "And you?",
            ],
            ["", "It is here.", "Why? Because.", "a?b", "What? " + "x" * 300],
        ),
        (
            Cue.HAS_TIME,
            [
                "I went there yesterday",
                "we moved last spring",
                "three weeks ago",
                "in 2019",
                "since 2020 or so",
                "on Monday",
                "born in May",
                "May 5",
                "in october",
                "昨天去了",
                "5月8日",
                "六月二日",
                "十二號",
                "三个月前",
                "上个星期",
                "星期五",
            ],
            ["", "you may come in", "it is blue", "a yesterdayish mood", "Maybe", "room 12345"],
        ),
        (
            Cue.SECOND_PERSON,
            ["Wow, you did it!", "Your cat is lovely", "Ann: You’re right", "你去吗"],
            ["", "I know you", "your house and mine", "You said we'd go", "youth", "The cat is grey", "我和你去"],
        ),
        (
            Cue.NAMES,
            ["we met Olaf", "in Porto, Portugal", "she read《活着》"],
            ["", "Thanks! That was good", "Ann: Really nice", "then I left", "so HTML"],
        ),
    ],
)
def test_signs(cue: Cue, having: list[str], lacking: list[str]) -> None:
    assert [text for text in having if not cues_of(text) & cue] == []
    assert [text for text in lacking if cues_of(text) & cue] == []


@pytest.mark.parametrize(
    "query",
    cases("text_cues", "a_question_for_a_time"),
)
def test_a_question_for_a_time(query: str) -> None:
    assert asks_when(query)


def test_a_long_row_of_digits_takes_no_longer_than_other_texts() -> None:
    """Reading it again from every digit would take hours."""
    digits = "7" * 300_000
    assert cues_of(digits) is Cue.NONE
    assert cues_of(f"{digits}年") is Cue.HAS_TIME


_PIECES = (
    "yesterday week last may in 19 2 ago For JUNE days sunday recently this next 1999 tea a day? - \n always Never "
    "from now on. the future going forward don't ever whenever when I ask I'd rather prefer my preference do not "
    "dislike like using five seventh Twice hundred You your you're we my"
).split(" ")
_HINTED = Cue.HAS_TIME | Cue.INSTRUCTS | Cue.PREFERS | Cue.SECOND_PERSON


@given(pieces=st.lists(st.sampled_from(_PIECES) | st.text(st.characters(max_codepoint=127), max_size=4), max_size=9))
def test_ascii_text_has_the_cues_that_it_has_within_other_text(pieces: list[str]) -> None:
    """Most ASCII texts are known to lack a cue before its expression is searched for."""
    text = " ".join(pieces)
    assert cues_of(text) & _HINTED == cues_of(f"{text} é") & _HINTED


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("Always put units on the axes.", Cue.INSTRUCTS),
        ("Thanks! Never use tabs.", Cue.INSTRUCTS),
        ("Input: please always answer in French", Cue.INSTRUCTS),
        ("Include the types whenever I ask for code", Cue.INSTRUCTS),
        ("From now on, be brief", Cue.INSTRUCTS),
        ("以后请用中文回答。", Cue.INSTRUCTS),
        ("I prefer open formats", Cue.PREFERS),
        ("I'd rather walk", Cue.PREFERS),
        ("我更喜欢简短的回答。", Cue.PREFERS),
        ("I have always loved the sea", Cue.NONE),
        ("She never came", Cue.NONE),
        ("We met when I was asking around", Cue.NONE),
        ("It is the preferred way", Cue.NONE),
    ],
)
def test_what_a_text_asks_to_keep_in_mind(text: str, cue: Cue) -> None:
    assert cues_of(text) & (Cue.INSTRUCTS | Cue.PREFERS) == cue
