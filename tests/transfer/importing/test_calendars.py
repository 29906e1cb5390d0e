"""Calendars: an event an item, at the right time in whatever zone."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import DataFileError
from devmem.model.record_fields import span_of
from devmem.model.times import parse_time
from tests.transfer.reading import items

CALENDAR = Path(__file__).parents[2] / "data" / "imports" / "calendar.ics"


def event(folder: Path, *lines: str, around: tuple[str, ...] = ()) -> Path:
    whole = ["BEGIN:VCALENDAR", *around, "BEGIN:VEVENT", "UID:1", *lines, "END:VEVENT", "END:VCALENDAR", ""]
    path = folder / "a.ics"
    path.write_bytes("\r\n".join(whole).encode())
    return path


def test_a_calendar_is_an_item_an_event() -> None:
    launch, weekly, trip, call = items(CALENDAR)
    assert launch.content_summary.splitlines() == [
        "Launch, at last",
        "When: 2025-06-02 10:00 to 11:30 (Europe/Berlin)",
        "Where: Old Mill; 2nd floor",
        "With: Ann Müller, Ben Roy, cem@example.org",
        "Bring the flyers.",
        "Doors open at 9.",
    ]
    assert launch.metadata == {
        "start": "2025-06-02T10:00:00+02:00",
        "end": "2025-06-02T11:30:00+02:00",
        "where": "Old Mill; 2nd floor",
        "organizer": "Ann Müller",
        "with": ["Ann Müller", "Ben Roy", "cem@example.org"],
        "kind": "event",
        "from": "2025-06-02T08:00:00+00:00",
        "to": "2025-06-02T09:30:00+00:00",
        "categories": ["Work", "Event"],
        "calendar": "Team",
    }
    assert weekly.content_summary == "Stand-up (cancelled)\nWhen: 2025-11-03 09:00 to 09:30 (UTC+01:00), every 2 weeks"
    assert (weekly.metadata["recurrence"], weekly.metadata["status"]) == (
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO",
        "cancelled",
    )
    assert trip.content_summary == (
        "Trip to Bern\nWhen: 2025-08-01 to 2025-08-03 (all day)\nTrain at 7:30\nBring shoes."
    )
    assert trip.metadata["all_day"] is True
    assert span_of(trip.metadata) == (parse_time("2025-08-01"), parse_time("2025-08-04"))
    assert "to" not in call.metadata
    assert call.content_summary == "Call\nWhen: 2025-07-03 18:00 (Europe/Berlin)"
    assert [item.event_time for item in items(CALENDAR)] == [
        parse_time(time)
        for time in ("2025-06-02T08:00:00Z", "2025-11-03T08:00:00Z", "2025-08-01", "2025-07-03T16:00:00Z")
    ]


@pytest.mark.parametrize(
    ("zone", "name"),
    [("/mozilla.org/20050126_1/Europe/Berlin", "Europe/Berlin"), ("America/New_York", "America/New_York")],
)
def test_a_zone_is_that_of_the_system(tmp_path: Path, zone: str, name: str) -> None:
    (item,) = items(event(tmp_path, f"DTSTART;TZID={zone}:20250703T180000"))
    assert item.event_time == datetime(2025, 7, 3, 18, tzinfo=ZoneInfo(name)).timestamp()


@pytest.mark.parametrize("zone", ["../../../etc/passwd", "America", "Nowhere/Land", "x" * 5000])
def test_a_zone_that_nobody_knows_is_named(tmp_path: Path, zone: str, caplog: pytest.LogCaptureFixture) -> None:
    (item,) = items(event(tmp_path, f"DTSTART;TZID={zone}:20250703T180000"))
    assert item.event_time == parse_time("2025-07-03T18:00:00")
    assert "is not known; its times are taken for local ones" in caplog.text


_ZONE = tuple(CALENDAR.read_text(encoding="utf-8").replace("W. Europe Standard Time", "Own").split("\n")[5:20])


@given(st.datetimes(min_value=datetime(1997, 1, 1), max_value=datetime(2037, 1, 1)))
def test_a_described_zone_has_the_offsets_of_its_rules(
    tmp_path_factory: pytest.TempPathFactory, local: datetime
) -> None:
    local = local.replace(microsecond=0)
    berlin = local.replace(tzinfo=ZoneInfo("Europe/Berlin"))
    near = {(berlin + timedelta(hours=hours)).utcoffset() for hours in (-4, 4)}
    (item,) = items(event(tmp_path_factory.getbasetemp(), f"DTSTART;TZID=Own:{local:%Y%m%dT%H%M%S}", around=_ZONE))
    assert item.event_time is not None
    offset = local.replace(tzinfo=UTC) - datetime.fromtimestamp(item.event_time, UTC)
    assert offset in near


def test_changed_occurrences_are_items_of_their_own(tmp_path: Path) -> None:
    first = ["DTSTART:20250703T180000Z", "RRULE:FREQ=DAILY", "SUMMARY:Call", "END:VEVENT"]
    path = event(
        tmp_path, *first, "BEGIN:VEVENT", "UID:1", "RECURRENCE-ID:20250704T180000Z", "DTSTART:20250704T190000Z"
    )
    assert [item.event_time for item in items(path)] == [
        parse_time("2025-07-03T18:00:00Z"),
        parse_time("2025-07-04T19:00:00Z"),
    ]
    assert len({item.id for item in items(path)}) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello", "a.ics:1: expected `BEGIN:VCALENDAR`, so it is not a calendar"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:x", "a.ics:2: the file is cut off: `BEGIN:VEVENT` has no end"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR", "a.ics:3: `END:VCALENDAR` ends `BEGIN:VEVENT` of line 2"),
        ("BEGIN:VCALENDAR\n" + "BEGIN:X\n" * 50, "a.ics:21: the parts of the file nest too deeply"),
    ],
)
def test_what_is_no_calendar_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "a.ics"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError) as caught:
        items(path)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "told", "start"),
    [
        (("X:a", " b", "DTSTART:soon"), "a.ics:6: event '1': 'DTSTART': not a time: 'soon'", None),
        (("DTSTART:20251345", "DTEND:20250704"), "a.ics:4: event '1': 'DTSTART': not a time: '20251345'", None),
        (("DTSTART:20250703", "DTEND:later"), "a.ics:5: event '1': 'DTEND': not a time: 'later'", "2025-07-03"),
        (("DTSTART:20250703", "DURATION:long"), "a.ics:5: event '1': 'DURATION': not a duration: 'long'", "2025-07-03"),
        (("DTSTART:99991231T235959", "DURATION:P9W"), "'DURATION': not a duration: 'P9W'", "9999-12-31T23:59:59"),
    ],
)
def test_an_invalid_time_is_left_out_and_named_with_its_event(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: tuple[str, ...], told: str, start: str | None
) -> None:
    next_one = ("END:VEVENT", "BEGIN:VEVENT", "UID:2", "DTSTART:20250704", "SUMMARY:Next")
    path = event(tmp_path, *lines, "SUMMARY:Call", *next_one)
    call, following = items(path)
    assert (call.content_summary.split("\n")[0], call.metadata.get("start")) == ("Call", start)
    assert (following.content_summary.split("\n")[0], following.metadata["start"]) == ("Next", "2025-07-04")
    assert caplog.text.count("the event is read without it") == 1
    assert told in caplog.text


_LINES = st.sampled_from(
    """BEGIN:VEVENT|END:VEVENT|BEGIN:VTIMEZONE|END:VTIMEZONE|TZID:x|DTSTART;TZID=x:20250101T000000|DTSTART:00010101
    |DTEND:99991231|DURATION:-P9W|RRULE:FREQ=YEARLY;BYDAY=5SU;BYMONTH=12|TZOFFSETTO:+2359|TZOFFSETTO:-0100|SUMMARY:a
    |BEGIN:STANDARD|END:STANDARD|ATTENDEE;CN="x|X;;:|:|CATEGORIES:,|DTSTART;TZID=x:00010101T000000""".split("|")
)


@given(st.lists(_LINES, max_size=20))
def test_whatever_a_calendar_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = event(tmp_path_factory.getbasetemp(), *(line.strip() for line in lines))
    with suppress(DataFileError):
        assert all(item.content_summary.strip() for item in items(path))
