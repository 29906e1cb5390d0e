"""Calendars (`.ics`, RFC 5545), an event an item at the time at which it starts, and contacts (`.vcf`, RFC 6350)."""

from __future__ import annotations

import io
import logging
import quopri
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter

from devmem.model.items import MemoryItem
from devmem.model.record_fields import FROM, KIND, TO, WHERE, WITH
from devmem.text.html import read_page
from devmem.transfer.importing.files import FileReader
from devmem.transfer.importing.records import Position, digest, text_item

_LOG: Final = logging.getLogger(__name__)
_KINDS: Final = {"VCALENDAR": "a calendar", "VCARD": "a file of contacts"}
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_NAME: Final = re.compile(r"[A-Za-z0-9.-]{1,60}(?=[;:])")
_PARAMETER: Final = re.compile(r""";([A-Za-z0-9-]{1,60})(?:=((?:"[^"]*"|[^";:,]*+)(?:,(?:"[^"]*"|[^";:,]*+))*))?""")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "N": "\n"}
_SPAN: Final = TypeAdapter(timedelta)
_HTML: Final = re.compile(r"<(?:br|p|div|span|a|b|ul|table|html)\b[^>]{0,500}>", re.IGNORECASE)
_FREQUENCIES: Final = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
_DEEPEST: Final = 20
_PEOPLE: Final = 50
"""Number of attendees that are named in the text."""


@dataclass(frozen=True, slots=True)
class _Property:
    """A line of a calendar, such as `DTSTART;TZID=Europe/Berlin:20250403T100000`."""

    name: str
    parameters: Mapping[str, str]
    value: str
    line: int


@dataclass(slots=True)
class _Component:
    """Part of a calendar, from a `BEGIN` to its `END`."""

    name: str
    line: int
    properties: list[_Property] = field(default_factory=list)
    inner: list[_Component] = field(default_factory=list)

    def first(self, name: str) -> _Property | None:
        """Return the first property of a name; None where there is none."""
        return next((one for one in self.properties if one.name == name), None)

    def text(self, name: str) -> str:
        """Return the first property of a name as text; empty where it is missing."""
        found = self.first(name)
        return _text_of(found) if found else ""


def is_calendar(head: bytes) -> bool:
    """Whether a file begins as a calendar does."""
    return head.lower().startswith(b"begin:vcalendar")


def is_contacts(head: bytes) -> bool:
    """Whether a file begins as contacts do."""
    return head.lower().startswith(b"begin:vcard")


_CONTACT: Final = {"TEL": "phone", "EMAIL": "email", "ADR": "address", "ORG": "organisation", "TITLE": "title",
                   "BDAY": "birthday", "URL": "url", "NOTE": "note"}  # fmt: skip
"""Names of the lines of a contact's text by the properties of a vCard."""


def read_contacts(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each contact of a vCard: its name, and a line for each number, address and note.

    Raises:
        DataFileError: the file cannot be read, or is not a vCard.
    """
    for card in _components(source, origin, "VCARD"):
        name = card.text("FN") or " ".join(reversed(_parts(card.text("N"))[:2])) or card.text("ORG").replace(";", ", ")
        if not name:
            origin.left_out.unusable.add(replace(origin, line=card.line).error("the contact has no name"))
            continue
        lines = [name]
        for one in card.properties:
            kind, value = _CONTACT.get(one.name.rpartition(".")[2]), ", ".join(_parts(_text_of(one)))
            if kind and value:
                place = one.parameters.get("TYPE", "").lower().partition(",")[0]
                lines.append(f"{kind}{f' ({place})' if place and place != 'pref' else ''}: {value}")
        uid = card.text("UID")
        yield text_item(
            origin=origin, id=digest("contact", uid or lines), text="\n".join(lines), metadata={"contact": name}
        )


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(";") if part.strip()]


def read_calendar(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each event; a recurring one is one item, and each changed occurrence another.

    Raises:
        DataFileError: the file cannot be read, or is not a calendar.
    """
    for calendar in _components(source, origin, "VCALENDAR"):
        zones = {one.text("TZID"): one for one in calendar.inner if one.name == "VTIMEZONE"}
        named = calendar.text("X-WR-TIMEZONE")
        reader = _Events(calendar.text("X-WR-CALNAME") or calendar.text("NAME"), zones, named, origin)
        yield from (reader.item(one) for one in calendar.inner if one.name == "VEVENT")
        others = sum(one.name in ("VTODO", "VJOURNAL", "VFREEBUSY") for one in calendar.inner)
        origin.leave("entries that are no events (tasks, journals)", others)


def _lines(source: FileReader) -> Iterator[tuple[int, str]]:
    """Yield the unfolded lines that are not blank, each with the 1-based number of its first line in the file."""
    data = source.data()
    if source.encoding or data.startswith(_WIDE_MARKS):
        data = source.decoded(data).encode("utf-8")
    numbers: list[int] = []
    lines: list[bytearray] = []
    # Bytes are unfolded, as a fold may stand within a character.
    for number, raw in enumerate(data.split(b"\n"), start=1):
        line = raw.rstrip(b"\r").replace(b"\r", b" ")
        if line[:1] in (b" ", b"\t") and lines:
            lines[-1] += line[1:]
        elif line:
            numbers.append(number)
            lines.append(bytearray(line))
    text = FileReader(source.path, source.name).decoded(b"\n".join(lines))
    yield from zip(numbers, text.removeprefix("\ufeff").split("\n"), strict=False)


def _components(source: FileReader, origin: Position, kind: str) -> Iterator[_Component]:
    """Yield the calendars or contacts of a file, each of which ends before the next one begins.

    Raises:
        DataFileError: the file is of another kind, or its parts are not nested as they should be.
    """
    open_parts: list[_Component] = []
    for number, line in _lines(source):
        here = replace(origin, line=number)
        found = _parsed(line, number)
        name = found.value.strip().upper() if found else ""
        if not open_parts and (found is None or (found.name, name) != ("BEGIN", kind)):
            raise here.error(f"expected `BEGIN:{kind}`, so it is not {_KINDS[kind]}")
        if found is None:
            origin.left_out.unusable.add(here.error("the line is malformed"))
        elif found.name == "BEGIN":
            if len(open_parts) >= _DEEPEST:
                raise here.error("the parts of the file nest too deeply")
            open_parts.append(_Component(name, number))
        elif found.name == "END":
            ended = _ended(open_parts, name, here)
            if not open_parts:
                yield ended
        else:
            open_parts[-1].properties.append(found)
    if open_parts:
        last = open_parts[-1]
        cut = replace(origin, line=last.line).error(f"the file is cut off: `BEGIN:{last.name}` has no end")
        origin.left_out.unusable.add(cut)
        if kind == "VCALENDAR":
            # Its complete parts are used.
            yield open_parts[0]


def _ended(open_parts: list[_Component], name: str, origin: Position) -> _Component:
    """Close the innermost part; raises `DataFileError` where it has another name."""
    ended = open_parts.pop()
    if ended.name != name:
        raise origin.error(f"`END:{name}` ends `BEGIN:{ended.name}` of line {ended.line}")
    if open_parts:
        open_parts[-1].inner.append(ended)
    return ended


def _parsed(line: str, number: int) -> _Property | None:
    """Return the property of a line; None where it is malformed."""
    named = _NAME.match(line)
    if named is None:
        return None
    parameters: dict[str, str] = {}
    at = named.end()
    while (found := _PARAMETER.match(line, at)) is not None:
        # In vCard 2.1 a type stands by itself: TEL;CELL:1
        name, value = ("TYPE", found[1]) if found[2] is None else (found[1].upper(), found[2].strip('"'))
        parameters[name] = value
        at = found.end()
    return _Property(named[0].upper(), parameters, line[at + 1 :], number) if line[at : at + 1] == ":" else None


def _text_of(found: _Property) -> str:
    """Return a value as text; those of vCard 2.1 may be quoted-printable."""
    if found.parameters.get("ENCODING", "").upper() == "QUOTED-PRINTABLE":
        return quopri.decodestring(found.value.encode()).decode("utf-8", "replace")
    return _unescaped(found.value)


def _unescaped(value: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), value).replace("\0", "").strip()


class _Events:
    """Makes items of the events of one calendar."""

    def __init__(self, calendar: str, zones: Mapping[str, _Component], default: str, origin: Position) -> None:
        self._calendar, self._zones, self._default, self._origin = calendar, zones, default, origin
        self._known: dict[str, tzinfo | None] = {}

    def item(self, event: _Component) -> MemoryItem:
        """Return the item of an event; each invalid time is left out and named in the log."""
        origin = replace(self._origin, line=event.line, entry="event")
        start = self._time(event, "DTSTART")
        end = self._end(event, start)
        recurrence = event.text("RRULE")
        attendees = [_person(one) for one in event.properties if one.name == "ATTENDEE"]
        about: dict[str, Any] = {
            "start": start.isoformat() if start else "",
            "end": end.isoformat() if end else "",
            "all_day": start is not None and not isinstance(start, datetime),
            WHERE: event.text("LOCATION"),
            "organizer": (organizer := _person(event.first("ORGANIZER"))),
            WITH: list(dict.fromkeys(filter(None, [organizer, *attendees]))),
            "recurrence": recurrence,
            "status": event.text("STATUS").lower(),
            "categories": [one for one in _split(event.first("CATEGORIES")) if one],
            "calendar": self._calendar,
            KIND: "event",
        }
        if start is not None and end is not None:
            # The last day of the calendar has no day after it.
            with suppress(ValueError, OverflowError):
                last = end if isinstance(end, datetime) else end + timedelta(days=1)
                span = [datetime.fromtimestamp(_seconds(at), UTC).isoformat() for at in (start, last)]
                about |= dict(zip((FROM, TO), span, strict=True))
        text = "\n".join(_text(event, about, _when(start, end) + _repeats(recurrence)))
        uid, occurrence = event.text("UID"), event.text("RECURRENCE-ID")
        return text_item(
            origin=origin,
            id=digest("event", uid, occurrence) if uid else digest("event", self._calendar, text),
            text=text,
            event_time=_seconds(start) if start else None,
            metadata={key: value for key, value in about.items() if value},
        )

    def _time(self, event: _Component, name: str) -> datetime | date | None:
        found = event.first(name)
        if found is None:
            return None
        try:
            value = found.value.strip()
            time = datetime.fromisoformat(value) if "T" in value else date.fromisoformat(value)
            if isinstance(time, datetime) and time.tzinfo is None:
                time = time.replace(tzinfo=self._zone(found.parameters.get("TZID") or self._default))
            _seconds(time)
        except (ValueError, OverflowError) as error:
            self._leave_out(event, found, f"not a time: {found.value[:60]!r} ({error})")
            return None
        return time

    def _leave_out(self, event: _Component, found: _Property, reason: str) -> None:
        """Name an invalid time of an event, which is read without it, in the log."""
        uid = event.text("UID")[:80]
        here = replace(self._origin, line=found.line, entry=f"event {uid!r}" if uid else "event")
        _LOG.warning("%s", here.error(f"{found.name!r}: {reason}; the event is read without it"))

    def _end(self, event: _Component, start: datetime | date | None) -> datetime | date | None:
        """Return the end of an event; of whole days the last one, where the file has the day after."""
        duration = event.first("DURATION")
        end = self._time(event, "DTEND")
        if end is None and start is not None and duration is not None:
            try:
                end = start + _SPAN.validate_python(duration.value.strip())
            except (ValueError, OverflowError):
                self._leave_out(event, duration, f"not a duration: {duration.value[:60]!r}")
        if end is not None and not isinstance(end, datetime) and start is not None:
            end -= timedelta(days=end > (start.date() if isinstance(start, datetime) else start))
        return None if end == start else end

    def _zone(self, name: str) -> tzinfo | None:
        """Return the zone of a name: of the system's, or else as the calendar describes it; None is the local one."""
        if name and name not in self._known:
            # Some programs write the path of a file: /mozilla.org/20050126_1/Europe/Berlin
            known = _system_zone(name) or _system_zone("/".join(name.split("/")[-2:]))
            self._known[name] = known or (_described_zone(self._zones[name]) if name in self._zones else None)
            if self._known[name] is None:
                told = "the time zone %r is not known; its times are taken for local ones"
                _LOG.warning(f"%s: {told}", self._origin.path, name[:80])
        return self._known.get(name)


def _system_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        # A name of nothing, a path that leads out of the folder of zones, or that of a folder.
        return None


def _seconds(time: datetime | date) -> float:
    """Return the seconds since the epoch; a day begins at midnight of the local clock."""
    return (time if isinstance(time, datetime) else datetime(time.year, time.month, time.day)).timestamp()


def _described_zone(zone: _Component) -> tzinfo | None:
    """Return the zone that a calendar describes; None where the description is unusable."""
    from dateutil.tz import tzical

    lines = ["BEGIN:VTIMEZONE", "TZID:zone"]
    for part in zone.inner:
        lines += [f"BEGIN:{part.name}", *(f"{one.name}:{one.value}" for one in part.properties), f"END:{part.name}"]
    try:
        found: tzinfo | None = tzical(io.StringIO("\n".join([*lines, "END:VTIMEZONE"]))).get("zone")
    except (ValueError, OverflowError):
        return None
    return found


def _person(found: _Property | None) -> str:
    """Return the name of an organizer or attendee, or else the address."""
    if found is None:
        return ""
    return (found.parameters.get("CN") or re.sub("^mailto:", "", found.value.strip(), flags=re.IGNORECASE))[:200]


def _split(found: _Property | None) -> list[str]:
    return [_unescaped(part) for part in re.split(r"(?<!\\),", found.value)] if found else []


def _text(event: _Component, about: Mapping[str, Any], when: str) -> Iterator[str]:
    """Yield the lines of an event's text."""
    cancelled = " (cancelled)" if about["status"] == "cancelled" else ""
    yield (event.text("SUMMARY") or "Event") + cancelled
    if when:
        yield f"When: {when}"
    if about[WHERE]:
        yield f"Where: {about[WHERE]}"
    if about[WITH]:
        yield f"With: {', '.join(about[WITH][:_PEOPLE])}"
    description = event.text("DESCRIPTION")
    if _HTML.search(description):
        description = "\n".join(block.text for block in read_page(description.replace("\n", "<br>")).blocks)
    if description:
        yield description


def _when(start: datetime | date | None, end: datetime | date | None) -> str:
    if start is None:
        return ""
    if not isinstance(start, datetime):
        return f"{start}{f' to {end}' if end else ''} (all day)"
    is_same_day = isinstance(end, datetime) and end.date() == start.date()
    until = "" if end is None else f" to {end:%H:%M}" if is_same_day else f" to {_minute(end)}"
    offset = start.utcoffset()
    zone = start.tzinfo.key if isinstance(start.tzinfo, ZoneInfo) else "" if offset is None else str(timezone(offset))
    return f"{_minute(start)}{until}" + (f" ({zone})" if zone else "")


def _minute(time: datetime | date) -> str:
    return time.isoformat(sep=" ", timespec="minutes")[:16] if isinstance(time, datetime) else time.isoformat()


def _repeats(rule: str) -> str:
    """Return the frequency of a recurring event in words, to be put behind its time."""
    parts = {name: value for name, _, value in (part.partition("=") for part in rule.upper().split(";"))}
    unit, interval = _FREQUENCIES.get(parts.get("FREQ", "")), parts.get("INTERVAL", "1")
    if unit is None:
        return ", repeated" if rule else ""
    return f", every {unit}" if interval == "1" else f", every {interval[:9]} {unit}s"
