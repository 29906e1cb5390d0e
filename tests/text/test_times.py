"""Usual words for times and sessions, in English and Chinese, asked on Saturday, 28 November 2026."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.times import LATEST, Period, period_of, session_named, without_times
from tests.cases import cases

NOW = datetime(2026, 11, 28, 10, tzinfo=UTC)
SHANGHAI = timezone(timedelta(hours=8))
WORDS = (
    "on since by until in the over during last past next this few couple of 3 40 Q3 week weekend days months "
    "quarter third Friday summer winter 2025 Christmas Eve tomorrow ago from now between and to 13.10.2026 3/4/2026 "
    "2026-W40 morning session first twenty-first 周三 最近 三 天 前 后 第 季度 明天 下周 周末 圣诞节 上次 聊天 , . ? "
    "the day before yesterday today night year one seven 2024-02-30 0000-00-00 9999 29 feb ſeven fıve 99999999999 "
    "after early end shortly later Sunday 31 May 2022 昨天 前天 上周 月 个月 年 去年 12月 31日 两 ２０２３ 号 "
    "五月 之前 以前 以来 起 从 到 和 之间 一周 几天 2022年 至今 底 - ( )"
).split()


def days(period: Period | None, zone: timezone = UTC) -> str | None:
    """Write the first and the last day of a period; an open end is empty."""
    if period is None:
        return None
    first, end = datetime.fromtimestamp(period.start, zone), datetime.fromtimestamp(period.end, zone)
    last = "" if end.date() == LATEST.date() else f"{end - timedelta(days=1):%m-%d}"
    return f"{first.date()}" if f"{first:%m-%d}" == last else f"{first.date()}..{last}"


def asked(text: str) -> str | None:
    return days(period_of(text, NOW))


@pytest.mark.parametrize(
    ("words", "wanted"),
    cases("text_times", "english"),
)
def test_english(words: str, wanted: str) -> None:
    assert asked(f"What does the crew eat {words}?") == wanted


@pytest.mark.parametrize(
    ("words", "wanted"),
    cases("text_times", "chinese"),
)
def test_chinese(words: str, wanted: str) -> None:
    assert asked(f"船员{words}吃什么？") == wanted


@pytest.mark.parametrize(
    "text",
    cases("text_times", "ordinary_prose_names_no_time"),
)
def test_ordinary_prose_names_no_time(text: str) -> None:
    assert asked(text) is None
    assert session_named(text) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("On July 8, 2023, which race did Tara mention for next month?", "2023-07-08"),
        ("Who came on a run on Friday in May 2024?", "2024-05-01..05-31"),
        ("在六月的一次周末训练中，我与谁一起训练？", "2026-06-01..06-30"),
        ("Was it yesterday or last month?", None),
    ],
)
def test_a_date_outweighs_a_weekday_and_a_time_to_come(text: str, wanted: str | None) -> None:
    assert asked(text) == wanted


@pytest.mark.parametrize(
    ("words", "exact"),
    cases("text_times", "the_part_of_a_period_that_is_meant"),
)
def test_the_part_of_a_period_that_is_meant(words: str, exact: str | None) -> None:
    found = period_of(words, NOW)
    assert found is not None
    meant = found.exact and " ".join(f"{datetime.fromtimestamp(edge, UTC):%Y-%m-%dT%H}" for edge in found.exact)
    assert meant == exact


@pytest.mark.parametrize(
    ("words", "past", "coming", "floats"),
    cases("text_times", "a_date_that_comes_again"),
)
def test_a_date_that_comes_again(words: str, past: str, coming: str | None, floats: bool) -> None:
    """The search takes the next one where the last one holds nothing."""
    found = period_of(words, NOW)
    assert found is not None
    assert (days(found), days(found.coming), found.floats) == (past, coming, floats)


def test_days_are_those_of_the_asker(local_zone: Callable[[str], None]) -> None:
    local_zone("Pacific/Auckland")
    early = datetime(2026, 11, 27, 7, tzinfo=SHANGHAI)  # still the 26th in UTC, noon of the 27th in Auckland
    assert days(period_of("yesterday", early), SHANGHAI) == "2026-11-26"
    assert days(period_of("昨天早上", early), SHANGHAI) == "2026-11-26"
    assert days(period_of("tomorrow", early.astimezone(UTC))) == "2026-11-27"


def test_a_time_without_a_zone_is_of_the_machine(local_zone: Callable[[str], None]) -> None:
    """Its days follow the season of the day that is meant, not that of the question."""
    local_zone("Pacific/Auckland")
    found = period_of("on 1 June 2026", NOW.timestamp())
    assert found is not None
    assert datetime.fromtimestamp(found.start, UTC).isoformat() == "2026-05-31T12:00:00+00:00"
    assert found == period_of("on 1 June 2026", datetime(2026, 11, 28, 23))


@pytest.mark.parametrize(
    ("text", "place"),
    cases("text_times", "sessions"),
)
def test_sessions(text: str, place: int | None) -> None:
    assert session_named(text) == place


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("What did Ann say about the boat yesterday morning?", "What did Ann say about the boat ?"),
        ("What happened between May 25th and June 5th?", "What happened between ?"),
        ("What did we do over the last 3 days", "What did we do"),
        ("In our third session, what did I say 12 days ago?", "In our , what did I say ?"),
        ("上次聊天我们昨天说了什么？", "我们说了什么?"),
        ("You may come in.", "You may come in."),
    ],
)
def test_the_rest_of_a_question(text: str, rest: str) -> None:
    assert without_times(text, NOW).replace("我们 说", "我们说") == rest


@given(
    text=st.text(max_size=80)
    | st.lists(st.sampled_from(["", " ", *WORDS]), max_size=20).map("".join)
    | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    now=st.floats(-1e10, 1e12) | st.datetimes(timezones=st.none() | st.timezones()),
)
def test_no_text_and_no_time_is_too_strange(text: str, now: float | datetime) -> None:
    found = period_of(text, now)
    for period in (found, found and found.coming):
        if period is not None:
            assert period.start < period.end
            assert period.exact is None or period.start <= period.exact[0] < period.exact[1] <= period.end
    without_times(text, now)
    session_named(text)
