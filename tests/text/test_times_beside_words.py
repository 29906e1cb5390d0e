"""Times relative to a date (before, since, between), asked on Wednesday, 24 May 2023."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.times import Period, period_of

NOW = datetime(2023, 5, 24, 10, 30, tzinfo=UTC)
FIRST = "0001-01-01"
LAST = "9999-12-31"
DATES = st.dates(min_value=date(1900, 1, 1), max_value=date(2099, 12, 31))


def iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert moment.timetuple()[3:6] == (0, 0, 0), "periods are of whole days"
    return moment.date().isoformat()


def asked(query: str, now: datetime = NOW) -> str | None:
    """Write the first and the last day that the query asks about; where it is open, there is none."""
    found = period_of(query, now.timestamp())
    if found is None:
        return None
    first = "" if iso(found.start) == FIRST else iso(found.start)
    last = "" if iso(found.end) == LAST else iso(found.end - 86_400)
    return first if first == last else f"{first}..{last}"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("What did she do before 5 May?", "..2023-05-04"),
        ("prior to May 5th, 2023", "..2023-05-04"),
        ("earlier than 2023-05-05", "..2023-05-04"),
        ("before the 5th of May", "..2023-05-04"),
        ("before around 5 May", "..2023-05-04"),
        ("before May", "..2023-04-30"),
        ("before may?", "..2023-04-30"),
        ("before 2023?", "..2022-12-31"),
        ("before yesterday", "..2023-05-22"),
        ("before last week", "..2023-05-14"),
        ("How many has Nate won by July 10, 2022?", "..2022-07-10"),
        ("by 2022, what had he won?", "..2022-12-31"),
        ("until 5 May", "..2023-05-05"),
        ("up until May 2022", "..2022-05-31"),
        ("up to 5 May", "..2023-05-05"),
        ("as of December 2022", "..2022-12-31"),
        ("no later than 5 May", "..2023-05-05"),
        ("on or before 5 May", "..2023-05-05"),
        ("2022 or earlier", "..2022-12-31"),
        ("by the end of April", "..2023-04-30"),
        ("before the end of April", "..2023-04-30"),
        ("after 2023-05-20", "2023-05-21.."),
        ("later than 20 May", "2023-05-21.."),
        ("after 2021?", "2022-01-01.."),
        ("after the beginning of 2022", "2022-01-01.."),
        ("since 20 May", "2023-05-20.."),
        ("since 2022", "2022-01-01.."),
        ("since 2022 Caroline has", "2022-01-01.."),
        ("since last week", "2023-05-15.."),
        ("since the end of 2022", "2023-01-01.."),
        ("on or after 20 May", "2023-05-20.."),
        ("starting from 20 May", "2023-05-20.."),
        ("from 20 May on, what", "2023-05-20.."),
        ("from May onwards", "2023-05-01.."),
        ("from 20 May until now", "2023-05-20.."),
        ("20 May or later", "2023-05-20.."),
        ("after 3 May and before 10 May", "2023-05-04..2023-05-09"),
        ("since March, but before May", "2023-03-01..2023-04-30"),
        ("between 3 May and 10 May", "2023-05-03..2023-05-10"),
        ("between 3 and 10 May", "2023-05-03..2023-05-10"),
        ("between May 3 and 10", "2023-05-03..2023-05-10"),
        ("between August 11 and August 15 2022", "2022-08-11..2022-08-15"),
        ("between 10 May 2023 and 3 May 2023", "2023-05-03..2023-05-10"),
        ("between 2020 and 2022?", "2020-01-01..2022-12-31"),
        ("from May to July 2022", "2022-05-01..2022-07-31"),
        ("from may to july 2022", "2022-05-01..2022-07-31"),
        ("from March to May", "2023-03-01..2023-05-31"),
        ("from May 2022 until March", "2022-05-01..2023-03-31"),
        ("from November to February 2023", "2022-11-01..2023-02-28"),
        ("from the beginning of May to the middle of July 2022", "2022-05-01..2022-07-31"),
        ("from 3 May, when we met, to 10 May", "2023-05-03..2023-05-10"),
        ("from last week to yesterday", "2023-05-15..2023-05-23"),
        ("May 3-10, 2022", "2022-05-03..2022-05-10"),
        ("3 to 10 May 2022", "2022-05-03..2022-05-10"),
        ("Nov 16, 2022 - Jan 15, 2023", "2022-11-16..2023-01-15"),
        ("in 2020-2022", "2020-01-01..2022-12-31"),
        ("the week before August 3, 2022", "2022-07-27..2022-08-02"),
        ("the day before 5 May", "2023-05-04"),
        ("the night before 5 May", "2023-05-04"),
        ("the day after 5 May", "2023-05-06"),
        ("the month after 5 May", "2023-05-06..2023-06-05"),
        ("the month before 31 March", "2023-02-28..2023-03-30"),
        ("the year before 2022", "2021-01-01..2021-12-31"),
        ("two weeks before August 11, 2022", "2022-07-25..2022-07-31"),
        ("three days before 5 May", "2023-05-02"),
        ("3 days after 5 May", "2023-05-08"),
        ("a month after 3 April", "2023-05-01..2023-05-31"),
        ("the two weeks before 3 May", "2023-04-19..2023-05-02"),
        ("within a week after 5 May", "2023-05-06..2023-05-12"),
        ("a few days after 5 May", "2023-05-06..2023-05-11"),
        ("in the weeks after 5 May", "2023-05-06..2023-06-16"),
        ("shortly before 5 May", "2023-04-21..2023-05-04"),
        ("soon after 2021?", "2022-01-01..2022-12-31"),
        ("on the Sunday before October 25, 2022", "2022-10-23"),
        ("the Friday after 5 May", "2023-05-12"),
        ("last weekend before April 10, 2023", "2023-04-08..2023-04-09"),
        ("the weekend before 9 April", "2023-04-01..2023-04-02"),
        ("the weekend after 5 May", "2023-05-06..2023-05-07"),
        ("How many days before 5 May did she leave?", "..2023-05-04"),
        ("every Sunday before 5 May", "..2023-05-04"),
        ("what she did that day before 5 May", "2023-05-04"),
        ("5月5日之前", "..2023-05-04"),
        ("5月5日前她做了什么", "..2023-05-04"),
        ("五月以前", "..2023-04-30"),
        ("三月前", "..2023-02-28"),
        ("4月底之前", "..2023-04-30"),
        ("截至5月5日", "..2023-05-05"),
        ("到5月5日为止", "..2023-05-05"),
        ("5月5日之后", "2023-05-06.."),
        ("5月5日后", "2023-05-06.."),
        ("2022年以来", "2022-01-01.."),
        ("二〇二二年以來", "2022-01-01.."),
        ("自从去年", "2022-01-01.."),
        ("从5月3日开始", "2023-05-03.."),
        ("5月3日起", "2023-05-03.."),
        ("从5月3日到现在", "2023-05-03.."),
        ("从三月到五月", "2023-03-01..2023-05-31"),
        ("从2022年五月一直到七月", "2022-05-01..2022-07-31"),
        ("从5月3日我们见面到5月10日", "2023-05-03..2023-05-10"),
        ("五月三日和五月十日之间", "2023-05-03..2023-05-10"),
        ("5月1日、5月3日、5月8日和5月20日分别做了什么", "2023-05-01..2023-05-20"),
        ("2022年1月和3月提到的", "2022-01-01..2022-03-31"),
        ("2022年11月、12月和2月", "2022-11-01..2023-02-28"),
        ("2月初和2月下旬", "2023-02-01..2023-02-28"),
        ("4月中旬之前", "..2023-04-10"),
        ("5月3日到10日", "2023-05-03..2023-05-10"),
        ("2022年5-7月", "2022-05-01..2022-07-31"),
        ("2020到2022年", "2020-01-01..2022-12-31"),
        ("5月3日前一周", "2023-04-26..2023-05-02"),
        ("5月3日的前一天", "2023-05-02"),
        ("5月3日之前的那个星期", "2023-04-26..2023-05-02"),
        ("5月3日两周前", "2023-04-16..2023-04-22"),
        ("5月3日的十天后", "2023-05-12..2023-05-14"),
        ("5月3日之后几天", "2023-05-04..2023-05-09"),
        ("二十天前", "2023-05-03..2023-05-05"),
        ("十二月二十一日", "2022-12-21"),
        ("on 5 May and 13 May", "2023-05-05..2023-05-13"),
        ("On April 6th and on April 13th, who came?", "2023-04-06..2023-04-13"),
        ("the evenings of October 5th and October 13th, 2022", "2022-10-05..2022-10-13"),
        ("4月5日和4月13日", "2023-04-05..2023-04-13"),
        ("in mid-April", "2023-04-01..2023-04-30"),
    ],
)
def test_english_and_chinese(query: str, wanted: str) -> None:
    assert asked(query) == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("What was it like before we met in May?", "2023-05-01..2023-05-31"),
        ("a book by 2023 winners", None),
        ("a book by May Smith", None),
        ("What came after May's party?", None),
        ("what comes after may surprise you", None),
        ("after 2000 people came", None),
        ("between 2000 and 2022 people", None),
        ("before and after 5 May", None),
        ("before 5 May or after 10 May", None),
        ("What have you been up to today?", "2023-05-24"),
        ("a photo from 5 May on the beach", "2023-05-05"),
        ("5 May - 2023 was fine", "2023-05-05"),
        ("May 3 to 10 people", "2023-05-03"),
        ("we may march to 5 May", "2023-05-05"),
        ("from Rome. On 5 May to Paris. To 10 May", None),
        ("before 2023-02-30", None),
        ("5月5日前往北京", "2023-05-05"),
        ("5月5日前天气怎么样", "2023-05-05"),
        ("5月5日前后", "2023-05-05"),
        ("5月5日起床", "2023-05-05"),
        ("5月5日后来怎样", "2023-05-05"),
        ("来自5月5日开始的信", "2023-05-05"),
        ("这周三年会", "2023-05-24"),
        ("二十三四天", None),
        ("1" * 50_000, None),
    ],
)
def test_what_only_looks_like_it(query: str, wanted: str | None) -> None:
    assert asked(query) == wanted


def test_a_day_without_a_year_that_ends_a_time_is_the_nearest() -> None:
    """A question about a deadline of 30 May comes before that day: the last 30 May would hide it."""
    assert asked("What is to be done by 30 May?") == "..2023-05-30"
    assert asked("before December") == "..2022-11-30"
    assert asked("since 30 May") == "2022-05-30.."


@given(day=DATES, now=st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)))
def test_every_day_ends_or_begins_a_time(day: date, now: datetime) -> None:
    """A date with its year means the same whenever it is said."""
    before, after = day - timedelta(days=1), day + timedelta(days=1)
    for said in (f"{day}", f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%B} {day.year}"):
        assert asked(f"before {said}", now) == f"..{before}"
        assert asked(f"by {said}", now) == f"..{day}"
        assert asked(f"since {said}", now) == f"{day}.."
        assert asked(f"after {said}", now) == f"{after}.."
        assert asked(f"the day before {said}", now) == str(before)
        assert asked(f"the day after {said}", now) == str(after)
    chinese = f"{day.year}年{day.month}月{day.day}日"
    assert asked(f"{chinese}之前", now) == f"..{before}"
    assert asked(f"{chinese}以来", now) == f"{day}.."
    assert asked(f"{chinese}之后", now) == f"{after}.."
    assert asked(f"{chinese}前一天", now) == str(before)


@given(days=st.tuples(DATES, DATES).map(sorted))
def test_every_two_days_have_a_time_between_them(days: list[date]) -> None:
    first, last = days
    wanted = str(first) if first == last else f"{first}..{last}"
    assert asked(f"between {first} and {last}") == asked(f"from {first} to {last}") == wanted
    assert asked(f"{first} - {last}") == asked(f"从{first}到{last}") == wanted


@given(
    weeks=st.integers(-1000, 1000),
    query=st.sampled_from(["since last week", "the week before yesterday", "上周五以来"]),
)
def test_what_is_said_of_now_moves_with_it(weeks: int, query: str) -> None:
    moved = timedelta(weeks=weeks)
    here, there = period_of(query, NOW.timestamp()), period_of(query, (NOW + moved).timestamp())
    assert here is not None
    end = here.end if iso(here.end) == LAST else here.end + moved.total_seconds()
    assert there == Period(here.start + moved.total_seconds(), end)
