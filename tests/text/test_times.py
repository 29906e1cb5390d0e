"""Times that a question names: usual words, dates and sessions, and times relative to a date."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone

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


WEDNESDAY = datetime(2024, 3, 13, 10, 30, tzinfo=UTC)


def named(query: str, now: datetime = WEDNESDAY) -> str | None:
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
    cases("text_named_times", "english_and_chinese"),
)
def test_named(query: str, wanted: str) -> None:
    assert named(query) == wanted


@pytest.mark.parametrize(
    ("query", "now", "wanted"),
    [
        ("2024-02-29", WEDNESDAY, "2024-02-29"),
        ("2023-02-29", WEDNESDAY, None),
        ("February 29", WEDNESDAY, "2024-02-29"),
        ("February 29, 2023", WEDNESDAY, None),
        ("February 29", datetime(2023, 3, 1, tzinfo=UTC), "2020-02-29"),
        ("2023年2月29日", WEDNESDAY, None),
        ("yesterday", datetime(2024, 3, 1, tzinfo=UTC), "2024-02-29"),
        ("last month", datetime(2024, 1, 31, 23, 59, tzinfo=UTC), "2023-12-01..2023-12-31"),
        ("in December 2023", datetime(2024, 1, 1, tzinfo=UTC), "2023-12-01..2023-12-31"),
        ("on 2023-13-01", WEDNESDAY, None),
        ("on April 31", WEDNESDAY, None),
        ("in 0000年", WEDNESDAY, None),
        ("9999年", WEDNESDAY, None),
        ("99999999999 days ago", WEDNESDAY, None),
        ("2024 months ago", WEDNESDAY, "1855-07-01..1855-07-31"),
        ("9" * 5000 + " days ago", WEDNESDAY, None),
    ],
)
def test_leap_years_and_days_that_no_calendar_has(query: str, now: datetime, wanted: str | None) -> None:
    assert named(query, now) == wanted


@pytest.mark.parametrize(
    "query",
    cases("text_named_times", "no_time_is_named"),
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


MAY_24 = datetime(2023, 5, 24, 10, 30, tzinfo=UTC)
FIRST = "0001-01-01"
LAST = "9999-12-31"
DATES = st.dates(min_value=date(1900, 1, 1), max_value=date(2099, 12, 31))


def iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert moment.timetuple()[3:6] == (0, 0, 0), "periods are of whole days"
    return moment.date().isoformat()


def asked_in_may(query: str, now: datetime = MAY_24) -> str | None:
    """Write the first and the last day that the query asks about; where it is open, there is none."""
    found = period_of(query, now.timestamp())
    if found is None:
        return None
    first = "" if iso(found.start) == FIRST else iso(found.start)
    last = "" if iso(found.end) == LAST else iso(found.end - 86_400)
    return first if first == last else f"{first}..{last}"


@pytest.mark.parametrize(
    ("query", "wanted"),
    cases("text_times_beside_words", "english_and_chinese"),
)
def test_relative_to_a_date(query: str, wanted: str) -> None:
    assert asked_in_may(query) == wanted


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
    assert asked_in_may(query) == wanted


def test_a_day_without_a_year_that_ends_a_time_is_the_nearest() -> None:
    """A question about a deadline of 30 May comes before that day: the last 30 May would hide it."""
    assert asked_in_may("What is to be done by 30 May?") == "..2023-05-30"
    assert asked_in_may("before December") == "..2022-11-30"
    assert asked_in_may("since 30 May") == "2022-05-30.."


@given(day=DATES, now=st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)))
def test_every_day_ends_or_begins_a_time(day: date, now: datetime) -> None:
    """A date with its year means the same whenever it is said."""
    before, after = day - timedelta(days=1), day + timedelta(days=1)
    for said in (f"{day}", f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%B} {day.year}"):
        assert asked_in_may(f"before {said}", now) == f"..{before}"
        assert asked_in_may(f"by {said}", now) == f"..{day}"
        assert asked_in_may(f"since {said}", now) == f"{day}.."
        assert asked_in_may(f"after {said}", now) == f"{after}.."
        assert asked_in_may(f"the day before {said}", now) == str(before)
        assert asked_in_may(f"the day after {said}", now) == str(after)
    chinese = f"{day.year}年{day.month}月{day.day}日"
    assert asked_in_may(f"{chinese}之前", now) == f"..{before}"
    assert asked_in_may(f"{chinese}以来", now) == f"{day}.."
    assert asked_in_may(f"{chinese}之后", now) == f"{after}.."
    assert asked_in_may(f"{chinese}前一天", now) == str(before)


@given(days=st.tuples(DATES, DATES).map(sorted))
def test_every_two_days_have_a_time_between_them(days: list[date]) -> None:
    first, last = days
    wanted = str(first) if first == last else f"{first}..{last}"
    assert asked_in_may(f"between {first} and {last}") == asked_in_may(f"from {first} to {last}") == wanted
    assert asked_in_may(f"{first} - {last}") == asked_in_may(f"从{first}到{last}") == wanted
