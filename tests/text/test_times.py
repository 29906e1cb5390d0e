"""Usual words for times and sessions, in English and Chinese, asked on Saturday, 28 November 2026."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.times import LATEST, Period, period_of, session_named, without_times

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
    [
        ("on Friday", "2026-11-27"),
        ("on Sat", "2026-11-21"),
        ("since Wednesday", "2026-11-25.."),
        ("this Friday", "2026-11-27"),
        ("last Friday", "2026-11-27"),
        ("Thursday of last week", "2026-11-19"),
        ("from Monday to Friday", "2026-11-23..11-27"),
        ("in the past three days", "2026-11-25..11-28"),
        ("over the last few days", "2026-11-22..11-28"),
        ("during this last week", "2026-11-21..11-28"),
        ("in the last couple of weeks", "2026-11-14..11-28"),
        ("last summer", "2026-06-01..08-31"),
        ("in the winter", "2025-12-01..02-28"),
        ("in the spring of 2024", "2024-03-01..05-31"),
        ("in Q3", "2026-07-01..09-30"),
        ("in Q4 2025", "2025-10-01..12-31"),
        ("2025-Q4", "2025-10-01..12-31"),
        ("in the third quarter", "2026-07-01..09-30"),
        ("last quarter", "2026-07-01..09-30"),
        ("on Christmas Eve", "2025-12-24"),
        ("last Christmas", "2025-12-25"),
        ("over New Year’s", "2026-01-01"),
        ("over the weekend", "2026-11-21..11-22"),
        ("this past weekend", "2026-11-21..11-22"),
        ("in week 40", "2026-09-28..10-04"),
        ("in week 40 of last year", "2025-09-29..10-05"),
        ("2025-W40", "2025-09-29..10-05"),
        ("on 13.10.2026", "2026-10-13"),
        ("on 10/13/2026", "2026-10-13"),
        ("at 2026-10-13T14:30", "2026-10-13"),
        ("in 2026-10", "2026-10-01..10-31"),
        ("a few days ago", "2026-11-22..11-26"),
        ("two days ago", "2026-11-26"),
        ("three months ago", "2026-08-01..08-31"),
        ("earlier this morning", "2026-11-28"),
        ("tomorrow", "2026-11-29"),
        ("the day after tomorrow", "2026-11-30"),
        ("next Thursday", "2026-12-03"),
        ("next week", "2026-11-30..12-06"),
        ("next weekend", "2026-12-05..12-06"),
        ("next month", "2026-12-01..12-31"),
        ("next summer", "2027-06-01..08-31"),
        ("this winter", "2026-12-01..02-28"),
        ("in two days", "2026-11-30"),
        ("in two weeks", "2026-12-09..12-15"),
        ("two weeks from now", "2026-12-09..12-15"),
        ("by Friday", "0001-01-01..12-04"),
    ],
)
def test_english(words: str, wanted: str) -> None:
    assert asked(f"What does the crew eat {words}?") == wanted


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("周三", "2026-11-25"),
        ("礼拜天", "2026-11-22"),
        ("周末", "2026-11-21..11-22"),
        ("这周末", "2026-11-28..11-29"),
        ("最近三天", "2026-11-25..11-28"),
        ("过去两周", "2026-11-14..11-28"),
        ("这几天", "2026-11-22..11-28"),
        ("第三季度", "2026-07-01..09-30"),
        ("去年Q3", "2025-07-01..09-30"),
        ("上季度", "2026-07-01..09-30"),
        ("第40周", "2026-09-28..10-04"),
        ("去年夏天", "2025-06-01..08-31"),
        ("平安夜", "2025-12-24"),
        ("今年国庆节", "2026-10-01"),
        ("圣诞", "2025-12-25"),
        ("三天前", "2026-11-25"),
        ("几天前", "2026-11-22..11-26"),
        ("昨天早上", "2026-11-27"),
        ("明天", "2026-11-29"),
        ("明早", "2026-11-29"),
        ("后天", "2026-11-30"),
        ("大后天", "2026-12-01"),
        ("下周", "2026-11-30..12-06"),
        ("下周三", "2026-12-02"),
        ("下个月5号", "2026-12-05"),
        ("明年", "2027-01-01..12-31"),
        ("在三天后", "2026-12-01"),
        ("过几天后", "2026-11-29..12-03"),
    ],
)
def test_chinese(words: str, wanted: str) -> None:
    assert asked(f"船员{words}吃什么？") == wanted


@pytest.mark.parametrize(
    "text",
    [
        "You may come in and sit down.",
        "The soldiers march on through the mud.",
        "March on, said the captain.",
        "Give me a second, I am looking for it.",
        "The second chapter is the one I like.",
        "What was our Q3 score?",
        "The baby came in week 40 of pregnancy.",
        "He plays for the Friday team.",
        "She teaches every Friday.",
        "We eat fish on Fridays, and she dances on Sunday nights.",
        "The office is open Monday to Friday.",
        "The sun was hot and the sat phone died.",
        "Do not fall in the mud.",
        "The spring in the sofa broke.",
        "They drank spring water at summer camp.",
        "May Smith wrote to April Jones.",
        "August Wilson is a playwright.",
        "Version 2.10.2024.3 is out.",
        "The box holds 10 people and room 2023 is free.",
        "It takes two weeks to dry.",
        "How much did he earn in two weeks?",
        "The puppy is three months old.",
        "A two-day trip costs 200 dollars.",
        "They won 3 to 2 in the end.",
        "The date palm grew tall.",
        "Sunday school bored him as a child.",
        "The Christmas tree fell over.",
        "Her Halloween costume was a bat.",
        "Day after day he waited.",
        "He is a weekend warrior.",
        "Let us call it a day.",
        "To date nobody has answered.",
        "We met at the year-end party.",
        "The weekly report came last.",
        "Next to the door stands a chair.",
        "Was it on 3/4/2026?",
        "Call 555-2024-10.",
        "The last session of parliament was long.",
        "她一周三次去游泳。",
        "他每周三打球，每个周末休息。",
        "怀孕第40周要注意什么？",
        "以后天天锻炼。",
        "这三天的进程如何？",
        "她入住的前几天订了房。",
        "第一周很忙。",
        "她买了圣诞装饰和圣诞树。",
        "我想去天津和日本。",
        "第三季的结局很好。",
        "桌下周围都是书，天上月亮很圆。",
        "我们见面三天后下雨了。",
        "他姓周，排行第三。",
    ],
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
    [
        ("12 days ago", "2026-11-16T00 2026-11-17T00"),
        ("二十天前", "2026-11-08T00 2026-11-09T00"),
        ("two weeks ago", "2026-11-14T00 2026-11-15T00"),
        ("in two weeks", "2026-12-12T00 2026-12-13T00"),
        ("this morning", "2026-11-28T00 2026-11-28T12"),
        ("yesterday afternoon", "2026-11-27T12 2026-11-27T18"),
        ("on Friday evening", "2026-11-27T17 2026-11-28T00"),
        ("昨晚", "2026-11-27T17 2026-11-28T00"),
        ("two days ago", None),
        ("a few days ago", None),
        ("three months ago", None),
        ("last week", None),
    ],
)
def test_the_part_of_a_period_that_is_meant(words: str, exact: str | None) -> None:
    found = period_of(words, NOW)
    assert found is not None
    meant = found.exact and " ".join(f"{datetime.fromtimestamp(edge, UTC):%Y-%m-%dT%H}" for edge in found.exact)
    assert meant == exact


@pytest.mark.parametrize(
    ("words", "past", "coming", "floats"),
    [
        ("on December 10", "2025-12-10", "2026-12-10", True),
        ("between May 25th and June 5th", "2026-05-25..06-05", "2027-05-25..06-05", True),
        ("in Q4", "2026-10-01..12-31", "2027-10-01..12-31", True),
        ("on Christmas Eve", "2025-12-24", "2026-12-24", True),
        ("12月10日", "2025-12-10", "2026-12-10", True),
        ("on Friday", "2026-11-27", "2026-12-04", False),
        ("on Saturday", "2026-11-21", "2026-11-28", False),
        ("周三", "2026-11-25", "2026-12-02", False),
        ("last Friday", "2026-11-27", None, False),
        ("on 10 December 2025", "2025-12-10", None, False),
        ("yesterday", "2026-11-27", None, False),
    ],
)
def test_a_date_that_comes_again(words: str, past: str, coming: str | None, floats: bool) -> None:
    """The search takes the next one where the last one holds nothing."""
    found = period_of(words, NOW)
    assert found is not None
    assert (days(found), days(found.coming), found.floats) == (past, coming, floats)


@pytest.fixture
def auckland(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("auckland")
def test_days_are_those_of_the_asker() -> None:
    early = datetime(2026, 11, 27, 7, tzinfo=SHANGHAI)  # still the 26th in UTC, noon of the 27th in Auckland
    assert days(period_of("yesterday", early), SHANGHAI) == "2026-11-26"
    assert days(period_of("昨天早上", early), SHANGHAI) == "2026-11-26"
    assert days(period_of("tomorrow", early.astimezone(UTC))) == "2026-11-27"


@pytest.mark.usefixtures("auckland")
def test_a_time_without_a_zone_is_of_the_machine() -> None:
    """Its days follow the season of the day that is meant, not that of the question."""
    found = period_of("on 1 June 2026", NOW.timestamp())
    assert found is not None
    assert datetime.fromtimestamp(found.start, UTC).isoformat() == "2026-05-31T12:00:00+00:00"
    assert found == period_of("on 1 June 2026", datetime(2026, 11, 28, 23))


def test_a_named_zone_keeps_its_seasons() -> None:
    found = period_of("on 1 June 2026", datetime(2026, 11, 28, tzinfo=ZoneInfo("Pacific/Auckland")))
    assert found is not None
    assert datetime.fromtimestamp(found.start, UTC).isoformat() == "2026-05-31T12:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("What did we discuss in our first session?", 0),
        ("In the twenty-first session, what did Tara say?", 20),
        ("our 3rd chat", 2),
        ("What did we discuss 29 sessions ago?", -29),
        ("two conversations ago", -2),
        ("in our last session", -1),
        ("the session before last", -2),
        ("第三次聊天我们说了什么？", 2),
        ("第一个对话", 0),
        ("上次聊天", -1),
        ("上上次对话", -2),
        ("两次会话之前", -2),
        ("last week", None),
        ("the 0th session", None),
        ("her third session", None),
        ("the third session of the parliament", None),
    ],
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


@given(before=st.integers(1, 400))
def test_the_exact_day_lies_within_its_period(before: int) -> None:
    found = period_of(f"What did we do {before} days ago?", NOW)
    assert found is not None
    start = (NOW.replace(hour=0) - timedelta(days=before)).timestamp()
    assert (found.exact or (found.start, found.end)) == (start, start + 86_400)
