"""Questions that are not look-ups: about one side of a conversation, for help, for an overview."""

from __future__ import annotations

import pytest

from devmem.text.cues import (
    Side,
    asks_for_help,
    asks_for_name,
    asks_for_number,
    asks_for_overview,
    side_asked_about,
    side_of,
)
from tests.cases import cases


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
