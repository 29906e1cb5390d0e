"""Times that a question names, said on Wednesday, 13 March 2024."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.times import period_of

NOW = datetime(2024, 3, 13, 10, 30, tzinfo=UTC)


def named(query: str, now: datetime = NOW) -> str | None:
    """Write the first and the last day that the query names."""
    found = period_of(query, now.timestamp())
    if found is None:
        return None
    first = datetime.fromtimestamp(found.start, UTC)
    last = datetime.fromtimestamp(found.end, UTC) - timedelta(days=1)
    assert first.timetuple()[3:6] == last.timetuple()[3:6] == (0, 0, 0), "periods are of whole days"
    return f"{first:%Y-%m-%d}" if first == last else f"{first:%Y-%m-%d}..{last:%Y-%m-%d}"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("What did she say yesterday?", "2024-03-12"),
        ("in May last year", "2023-05-01..2023-05-31"),
        ("8 May last year", "2023-05-08"),
        ("this December", "2024-12-01..2024-12-31"),
        ("the day before yesterday", "2024-03-11"),
        ("What happened last night", "2024-03-12"),
        ("today", "2024-03-13"),
        ("this morning", "2024-03-13"),
        ("What did we do last week?", "2024-03-04..2024-03-10"),
        ("this week", "2024-03-11..2024-03-17"),
        ("last month", "2024-02-01..2024-02-29"),
        ("LAST YEAR", "2023-01-01..2023-12-31"),
        ("last weekend", "2024-03-09..2024-03-10"),
        ("this weekend", "2024-03-16..2024-03-17"),
        ("last Friday", "2024-03-08"),
        ("last Wednesday", "2024-03-06"),
        ("two days ago", "2024-03-11"),
        ("10 days ago", "2024-03-02..2024-03-04"),
        ("a week ago", "2024-03-03..2024-03-09"),
        ("three months ago", "2023-12-01..2023-12-31"),
        ("a year ago", "2023-01-01..2023-12-31"),
        ("on May 8th 2023", "2023-05-08"),
        ("the 8th of May, 2023", "2023-05-08"),
        ("Jan. 5, 2023", "2023-01-05"),
        ("sept 5", "2023-09-05"),
        ("in May 2023", "2023-05-01..2023-05-31"),
        ("May of 2023", "2023-05-01..2023-05-31"),
        ("in May", "2023-05-01..2023-05-31"),
        ("in late February", "2024-02-01..2024-02-29"),
        ("on December 24", "2023-12-24"),
        ("on March 13", "2024-03-13"),
        ("during 2022", "2022-01-01..2022-12-31"),
        ("in May in 2023", "2023-05-01..2023-05-31"),
        ("昨天说了什么?", "2024-03-12"),
        ("前天", "2024-03-11"),
        ("大前天", "2024-03-10"),
        ("大前年", "2021-01-01..2021-12-31"),
        ("上上周", "2024-02-26..2024-03-03"),
        ("上上个月", "2024-01-01..2024-01-31"),
        ("今天", "2024-03-13"),
        ("上周我们做了什么", "2024-03-04..2024-03-10"),
        ("上个星期", "2024-03-04..2024-03-10"),
        ("上周五", "2024-03-08"),
        ("上礼拜天", "2024-03-10"),
        ("这周三", "2024-03-13"),
        ("上个月", "2024-02-01..2024-02-29"),
        ("本月", "2024-03-01..2024-03-31"),
        ("去年", "2023-01-01..2023-12-31"),
        ("前年", "2022-01-01..2022-12-31"),
        ("三天前", "2024-03-10"),
        ("两个月前", "2024-01-01..2024-01-31"),
        ("2周之前", "2024-02-25..2024-03-02"),
        ("2023年05月08日", "2023-05-08"),
        ("2023 年 5 月 8 日", "2023-05-08"),
        ("２０２３年５月８号", "2023-05-08"),
        ("2023年5月", "2023-05-01..2023-05-31"),
        ("去年12月", "2023-12-01..2023-12-31"),
        ("上週", "2024-03-04..2024-03-10"),
        ("上個禮拜六", "2024-03-09"),
        ("這個月", "2024-03-01..2024-03-31"),
        ("兩個禮拜前", "2024-02-25..2024-03-02"),
        ("上周末", "2024-03-09..2024-03-10"),
        ("上个月5号", "2024-02-05"),
        ("上个月三十号", None),
        ("去年八月中旬", "2023-08-11..2023-08-20"),
        ("2月上旬", "2024-02-01..2024-02-10"),
        ("2月份的下旬", "2024-02-21..2024-02-29"),
        ("2023年上半年", "2023-01-01..2023-06-30"),
        ("去年的下半年", "2023-07-01..2023-12-31"),
        ("2022年", "2022-01-01..2022-12-31"),
        ("5月", "2023-05-01..2023-05-31"),
        ("3月8号", "2024-03-08"),
        ("3月30日", "2023-03-30"),
        ("我在May 2023说了什么", "2023-05-01..2023-05-31"),
    ],
)
def test_english_and_chinese(query: str, wanted: str) -> None:
    assert named(query) == wanted


@pytest.mark.parametrize(
    ("query", "now", "wanted"),
    [
        ("2024-02-29", NOW, "2024-02-29"),
        ("2023-02-29", NOW, None),
        ("February 29", NOW, "2024-02-29"),
        ("February 29, 2023", NOW, None),
        ("February 29", datetime(2023, 3, 1, tzinfo=UTC), "2020-02-29"),
        ("2023年2月29日", NOW, None),
        ("yesterday", datetime(2024, 3, 1, tzinfo=UTC), "2024-02-29"),
        ("last month", datetime(2024, 1, 31, 23, 59, tzinfo=UTC), "2023-12-01..2023-12-31"),
        ("in December 2023", datetime(2024, 1, 1, tzinfo=UTC), "2023-12-01..2023-12-31"),
        ("on 2023-13-01", NOW, None),
        ("on April 31", NOW, None),
        ("in 0000年", NOW, None),
        ("9999年", NOW, None),
        ("99999999999 days ago", NOW, None),
        ("2024 months ago", NOW, "1855-07-01..1855-07-31"),
        ("9" * 5000 + " days ago", NOW, None),
    ],
)
def test_leap_years_and_days_that_no_calendar_has(query: str, now: datetime, wanted: str | None) -> None:
    assert named(query, now) == wanted


@pytest.mark.parametrize(
    "query",
    [
        "",
        "what is her name?",
        "you may come in",
        "she marched 5 miles",
        "version 2023",
        "twenty-one days ago",
        "thirty one days ago",
        "目前年龄",
        "以前年度的报告",
        "日本周边",
        "版本周期",
        "a weekly report",
        "21月",
        "it lasts a year",
    ],
)
def test_no_time_is_named(query: str) -> None:
    assert named(query) is None


def test_several_times() -> None:
    """Those that touch give what they share, others nothing: a guess would hide what is asked for."""
    assert named("in May 2023, on 8 May 2023") == "2023-05-08"
    assert named("last month, in 2024") == "2024-02-01..2024-02-29"
    assert named("May 8, 2023 or May 9, 2023") is None
    assert named("yesterday or today") is None
    assert named("in May 2023 or yesterday") is None


def test_what_is_said_in_other_letters() -> None:
    """Unicode takes a long s and a dotless i for s and i when case is ignored; the words are not known all the same."""
    assert named("fıve days ago") is None
    assert named("\uff4d\uff41\uff59 \uff18, 2023") == "2023-05-08"


@given(day=st.dates(min_value=date(1900, 1, 1), max_value=date(2099, 12, 31)))
def test_every_day_is_read_in_every_form(day: date) -> None:
    forms = (
        f"{day:%Y-%m-%d}",
        f"{day.year}/{day.month}/{day.day}",
        f"{day:%B} {day.day}, {day.year}",
        f"{day.day} {day:%b} {day.year}",
        f"{day.year}年{day.month}月{day.day}日",
    )
    assert {named(form) for form in forms} == {f"{day:%Y-%m-%d}"}


@pytest.mark.parametrize("now", [1.7e12, float("nan"), float("inf"), -1e18])
def test_a_clock_that_no_calendar_knows(now: float) -> None:
    """Milliseconds taken for seconds, say."""
    assert period_of("What happened last week?", now) is None


@pytest.mark.parametrize(
    ("query", "floats"),
    [
        ("in January", True),
        ("on May 8th", True),
        ("5月8日", True),
        ("from May to July", True),
        ("since May", True),
        ("in May 2023", False),
        ("from May to July 2023", False),
        ("8 May last year", False),
        ("last week", False),
        ("two days ago", False),
        ("in 2023", False),
    ],
)
def test_whether_a_period_comes_of_a_date_without_a_year(query: str, floats: bool) -> None:
    found = period_of(f"What happened {query}?", NOW.timestamp())
    assert found is not None
    assert found.floats is floats
