"""Points in time as people write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from devmem.text.moments import parse_moment, zone_name

NOW = datetime.fromisoformat("2026-06-02T13:23:20+12:00").timestamp()


@pytest.fixture(autouse=True)
def auckland(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "2026-06-02T13:23:20+12:00"),
        ("today", "2026-06-02T00:00+12:00"),
        ("Yesterday", "2026-06-01T00:00+12:00"),
        ("yesterday 14:30", "2026-06-01T14:30+12:00"),
        ("tomorrow at 9:05", "2026-06-03T09:05+12:00"),
        ("昨天", "2026-06-01T00:00+12:00"),
        ("2026-06-02", "2026-06-02T00:00+12:00"),
        ("2026-01-02", "2026-01-02T00:00+13:00"),
        ("20260602", "2026-06-02T00:00+12:00"),
        ("2026-06-02 14:30", "2026-06-02T14:30+12:00"),
        ("2026-06-02T14:30Z", "2026-06-02T14:30+00:00"),
        ("2.6.2026", "2026-06-02T00:00+12:00"),
        ("2. 6. 2026 9:05", "2026-06-02T09:05+12:00"),
        ("2026/6/2", "2026-06-02T00:00+12:00"),
        ("2026年6月2日", "2026-06-02T00:00+12:00"),
        ("1780358400", "2026-06-02T00:00+00:00"),
        ("1780358400000", "2026-06-02T00:00+00:00"),
        ("in 30 days", "2026-07-02T13:23:20+12:00"),
        ("in a week", "2026-06-09T13:23:20+12:00"),
        ("3天后", "2026-06-05T13:23:20+12:00"),
        ("an hour ago", "2026-06-02T12:23:20+12:00"),
        ("30d ago", "2026-05-03T13:23:20+12:00"),
        ("last week", "2026-05-25T00:00+12:00"),
        ("May 2023", "2023-05-01T00:00+12:00"),
        ("8 May 2023", "2023-05-08T00:00+12:00"),
    ],
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
