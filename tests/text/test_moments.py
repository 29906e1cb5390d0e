"""Points in time and durations as people write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text.durations import parse_duration
from devmem.text.moments import parse_moment, zone_name
from tests.cases import cases

NOW = datetime.fromisoformat("2026-06-02T13:23:20+12:00").timestamp()


@pytest.fixture(autouse=True)
def auckland(local_zone: Callable[[str], None]) -> None:
    local_zone("Pacific/Auckland")


@pytest.mark.parametrize(
    ("text", "meant"),
    cases("text_moments", "what_a_time_means"),
)
def test_what_a_time_means(text: str, meant: str) -> None:
    assert parse_moment(text, now=NOW) == datetime.fromisoformat(meant).timestamp()


def test_a_duration_alone_lies_behind_or_ahead() -> None:
    day = 86_400
    assert parse_moment("P30D", now=NOW) == NOW - 30 * day
    assert parse_moment("30d", now=NOW, ahead=True) == NOW + 30 * day


@pytest.mark.parametrize("text", ["", "soon", "31.2.2026", "in 3 months", "last week or so", "25:00", "-5"])
def test_other_texts_are_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time: .*yesterday"):
        parse_moment(text, now=NOW)


def test_a_date_of_two_readings_is_refused() -> None:
    with pytest.raises(ValueError, match="not clear whether the day or the month comes first: '03/04/2025'"):
        parse_moment("03/04/2025", now=NOW)


def test_the_zone_has_a_name_that_follows_the_season() -> None:
    assert (zone_name(NOW), zone_name(NOW - 150 * 86_400)) == ("NZST", "NZDT")


UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30d", 30 * 86_400),
        ("12h", 12 * 3_600),
        (" 1h 30m ", 5_400),
        ("2 weeks", 14 * 86_400),
        ("1 day 1 hour 1 minute 1 second", 90_061),
        ("1.5h", 5_400),
        ("P30D", 30 * 86_400),
        ("PT12H", 12 * 3_600),
        ("PT30M", 1_800),
        ("2 Weeks", 14 * 86_400),
        ("30D", 30 * 86_400),
        ("90", 90),
        (0.5, 0.5),
        (timedelta(days=2), 2 * 86_400),
    ],
)
def test_what_is_read(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (["", "d", "3 months", "1h-30m", "P", "nan", True, None, [1], "inf", "1_000", "1_0d"], "expected a duration"),
        (["30M", "1h 30 M"], "30m are minutes"),
        (["P1M", "P1Y", "p1y2m", "P1M1DT2H"], "no fixed length"),
        ([0, "0d", -5, "-5", "200000d", 1e12, 10**400, -(10**400), "9" * 400], r"above 0|century|such as 30d"),
    ],
)
def test_what_is_refused(refused: list[object], said: str) -> None:
    """Months and years have no fixed length, and one letter is all that P1M and PT1M differ in."""
    for written in refused:
        with pytest.raises(ValueError, match=said):
            parse_duration(written)


@given(st.dictionaries(st.sampled_from(sorted(UNITS)), st.integers(1, 500), min_size=1))
def test_parts_add_up(parts: dict[str, int]) -> None:
    """In any order."""
    written = " ".join(f"{number}{unit}" for unit, number in parts.items())
    assert parse_duration(written) == sum(number * UNITS[unit] for unit, number in parts.items())
