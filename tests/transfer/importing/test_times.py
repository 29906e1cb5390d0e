"""Times as data files write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from devmem.transfer.importing import parse_time

MAY_8 = datetime(2023, 5, 8, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("raw", "seconds_into_the_day"),
    [
        ("1:56 pm on 8 May, 2023", 13 * 3600 + 56 * 60),
        ("12:09 am on 8 May, 2023", 9 * 60),
        ("2023-05-08", 0),
        ("2023-05-08T13:56:00Z", 13 * 3600 + 56 * 60),
        ("2023-05-08T13:56:00+02:00", 11 * 3600 + 56 * 60),
        ("2023-05-08 13:56:07", 13 * 3600 + 56 * 60 + 7),
        ("May-08-2023", 0),
        ("08.05.2023, 22:42:04", 22 * 3600 + 42 * 60 + 4),
        ("2023/05/08 (Mon) 02:21", 2 * 3600 + 21 * 60),
        ("8 May 2023", 0),
        ("May 8, 2023", 0),
        (MAY_8, 0),
        (int(MAY_8) * 1000, 0),
    ],
)
def test_a_time_is_read_in_every_form(raw: object, seconds_into_the_day: int) -> None:
    assert parse_time(raw) == MAY_8 + seconds_into_the_day


@pytest.mark.parametrize("raw", ["", "  ", "yesterday", "2023-13-01", None, True, [], float("nan"), float("inf"), 1e20])
def test_what_is_no_time_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_time(raw)
