"""Times as data files write them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import AmbiguousDateError
from devmem.model.times import DateOrder
from devmem.stores import parse_time

MAY_8 = datetime(2023, 5, 8, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("raw", "seconds_into_the_day"),
    [
        ("1:56 pm on 8 May, 2023", 13 * 3600 + 56 * 60),
        ("2023-05-08", 0),
        ("2023-05-08T13:56:00+02:00", 11 * 3600 + 56 * 60),
        ("May-08-2023", 0),
        ("08.05.2023, 22:42:04", 22 * 3600 + 42 * 60 + 4),
        ("2023/05/08 (Mon) 02:21", 2 * 3600 + 21 * 60),
        ("May 8, 2023", 0),
        ("2023年5月8日 星期一 下午1:56", 13 * 3600 + 56 * 60),
        ("2023年5月8日13时56分", 13 * 3600 + 56 * 60),
        ("2023. 5. 8. 오후 1:56", 13 * 3600 + 56 * 60),
        ("٨/٥/٢٠٢٣، ١:٥٦ م", 13 * 3600 + 56 * 60),
        ("08/05/2023, 1:56 nachm.", 13 * 3600 + 56 * 60),
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


@pytest.mark.parametrize(
    ("raw", "seconds_into_the_day"),
    [
        ("08.05.23 13:56", 13 * 3600 + 56 * 60),
        ("08.05.2023 um 13:56 Uhr", 13 * 3600 + 56 * 60),
        ("Montag, 8. Mai 2023, 13:56", 13 * 3600 + 56 * 60),
        ("8 May 2023 1:56 pm", 13 * 3600 + 56 * 60),
        ("Mon, 8 May 2023 13:56:00 +0200", 11 * 3600 + 56 * 60),
    ],
)
def test_a_time_is_read_as_people_and_mails_write_it(raw: str, seconds_into_the_day: int) -> None:
    assert parse_time(raw) == MAY_8 + seconds_into_the_day


def test_day_and_month_are_told_apart_or_asked_about() -> None:
    assert parse_time("13/5/2023") - parse_time("5/13/2023") == 0
    assert parse_time("5/5/2023") == parse_time("5.5.2023")
    assert parse_time("05/08/2023", DateOrder.MDY) == parse_time("08-05-2023", DateOrder.DMY) == MAY_8
    with pytest.raises(AmbiguousDateError, match="not clear whether the day or the month comes first"):
        parse_time("05/08/2023")
    with pytest.raises(ValueError, match="not a time"):
        parse_time("13/05/2023", DateOrder.MDY)


@given(st.dates(min_value=date(1970, 1, 2), max_value=date(2069, 12, 31)), st.sampled_from(DateOrder))
def test_every_day_is_read_in_the_order_that_is_named(day: date, order: DateOrder) -> None:
    form = "%d/%m/%Y" if order is DateOrder.DMY else "%m/%d/%Y"
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    assert parse_time(day.strftime(form), order) == parse_time(day.isoformat()) == midnight


@given(st.text(alphabet="0123456789/.-: AaPpMmTZ+Mai", max_size=30))
def test_whatever_a_text_is_it_is_a_time_or_refused(raw: str) -> None:
    with suppress(ValueError, OverflowError):
        assert isinstance(parse_time(raw), float)
