"""Signs of a question in a text, the part that asks something, and questions that are not look-ups."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem.text.analysis import query_terms
from devmem.text.cues import (
    Cue,
    Side,
    asks_for_help,
    asks_for_name,
    asks_for_number,
    asks_for_overview,
    asks_when,
    cues_of,
    side_asked_about,
    side_of,
)
from devmem.text.query_text import REST_SHARE, QueryText
from tests.cases import cases
from tests.generated import examples


@pytest.mark.parametrize(
    ("query", "side"),
    [
        ("When does my first sprint end?", Side.USER),
        ("Have I obtained an API key?", Side.USER),
        ("我的航班是几点?", Side.USER),
        ("Can you remind me what you recommended for dinner?", Side.ASSISTANT),
        ("What was your suggestion for my garden?", Side.ASSISTANT),
        ("你之前推荐过哪家餐厅?", Side.ASSISTANT),
        ("您之前推薦過哪家餐廳?", Side.ASSISTANT),
        ("When is the launch?", None),
        ("What does Ann drink?", None),
        ("Tell me about mypy", None),
    ],
)
def test_whose_words_are_asked_for(query: str, side: Side | None) -> None:
    assert side_asked_about(query) is side


@pytest.mark.parametrize(
    ("speaker", "side"),
    [
        ("user", Side.USER),
        ("Human", Side.USER),
        ("用户", Side.USER),
        ("用戶", Side.USER),
        ("assistant", Side.ASSISTANT),
        ("ChatGPT", Side.ASSISTANT),
        ("model", Side.ASSISTANT),
        ("助手", Side.ASSISTANT),
        ("Ann", None),
    ],
)
def test_sides_of_speakers(speaker: str, side: Side | None) -> None:
    assert side_of(speaker) is side


@pytest.mark.parametrize(
    ("query", "answer"),
    cases("text_questions", "requests_for_help"),
)
def test_requests_for_help(query: str, answer: bool) -> None:
    assert asks_for_help(query) is answer


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("Can you summarize our talks?", True),
        ("Give me an overview of the project.", True),
        ("How has my understanding of probability developed?", True),
        ("请总结一下项目进展", True),
        ("總結一下我們的旅行", True),
        ("When is the launch?", False),
        ("How do I develop an app?", False),
    ],
)
def test_requests_for_an_overview(query: str, answer: bool) -> None:
    assert asks_for_overview(query) is answer


@pytest.mark.parametrize(
    ("query", "name", "number"),
    cases("text_questions", "the_kind_of_answer"),
)
def test_the_kind_of_answer(query: str, name: bool, number: bool) -> None:
    assert (asks_for_name(query), asks_for_number(query)) == (name, number)


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


_CUES = (
    "yesterday week last may in 19 2 ago For JUNE days sunday recently this next 1999 tea a day? - \n always Never "
    "from now on. the future going forward don't ever whenever when I ask I'd rather prefer my preference do not "
    "dislike like using five seventh Twice hundred You your you're we my"
).split(" ")
_HINTED = Cue.HAS_TIME | Cue.INSTRUCTS | Cue.PREFERS | Cue.SECOND_PERSON


@given(pieces=st.lists(st.sampled_from(_CUES) | st.text(st.characters(max_codepoint=127), max_size=4), max_size=9))
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
