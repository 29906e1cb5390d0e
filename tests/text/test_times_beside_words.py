"""Times relative to a date (before, since, between), asked on Wednesday, 24 May 2023."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.times import period_of
from tests.cases import cases

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
    cases("text_times_beside_words", "english_and_chinese"),
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
