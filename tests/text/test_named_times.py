"""Times that a question names, said on Wednesday, 13 March 2024."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.times import period_of
from tests.cases import cases

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
    cases("text_named_times", "english_and_chinese"),
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
