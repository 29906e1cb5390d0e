"""Points in time as people write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

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
