"""Times of what is added: one reader for texts and messages, whatever key and form a program has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

import devmem
from devmem.errors import MessageError
from devmem.messages import Message

NOON = datetime(2026, 11, 5, 12, tzinfo=UTC)
Content = Callable[[dict[str, Any]], dict[str, Any]]


def text(time: dict[str, Any]) -> dict[str, Any]:
    return {"text": "I live in Basel.", **time}


def message(time: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": "I live in Basel.", **time}


def parts(time: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "I live in Basel."}], "id": "m-1", **time}


@pytest.mark.parametrize("key", ["time", "created_at", "timestamp", "date"])
@pytest.mark.parametrize("made", [text, message, parts])
@pytest.mark.parametrize(
    "when",
    [
        NOON,
        NOON.timestamp(),
        int(NOON.timestamp()) * 1000,
        str(int(NOON.timestamp())),
        "2026-11-05T12:00:00Z",
        "2026-11-05T14:00+02:00",
        NOON.astimezone().replace(tzinfo=None),
        NOON.astimezone().replace(tzinfo=None).isoformat(),
        "Thu, 5 Nov 2026 12:00:00 +0000",
    ],
)
def test_a_time_is_read_under_each_key_in_each_form(memory: devmem.Memory, made: Content, key: str, when: Any) -> None:
    memory.add(made({key: when}))
    (record,) = memory.list()
    assert record.time == NOON
    assert record.caller_metadata == {}


@pytest.mark.parametrize("made", [text, message])
@pytest.mark.parametrize("when", ["2026-11-05", date(2026, 11, 5), "5. November 2026"])
def test_a_day_is_its_local_midnight(memory: devmem.Memory, made: Content, when: Any) -> None:
    memory.add(made({"date": when}))
    assert memory.list()[0].time == datetime(2026, 11, 5).astimezone()


@pytest.mark.parametrize("made", [text, message])
@pytest.mark.parametrize("when", ["soon", "2026-13-05", "03/04/2026", True, [2026], float("nan"), 1e18])
def test_what_cannot_be_read_is_refused_and_nothing_is_stored(memory: devmem.Memory, made: Content, when: Any) -> None:
    with pytest.raises(ValueError, match=r"time|day"):
        memory.add([message({}), made({"created_at": when})])
    assert len(memory) == 0


def test_of_two_times_none_is_lost(memory: devmem.Memory) -> None:
    memory.add(message({"time": NOON, "date": "2020-01-01"}))
    (record,) = memory.list()
    assert (record.time, record.caller_metadata) == (NOON, {"date": "2020-01-01"})
    with pytest.raises(ValueError, match="`time` and `date` both"):
        memory.add(text({"time": NOON, "date": "2020-01-01"}))


def test_no_time_is_said_in_many_ways(memory: devmem.Memory) -> None:
    memory.add(text({"date": None}))
    memory.add(message({"created_at": "n/a"}))
    assert [record.event_time is None for record in memory.list()] == [False, True]


def test_a_message_is_made_with_each_form_of_a_time() -> None:
    assert Message("hi", created_at="2026-11-05T12:00Z").created_at == Message("hi", created_at=NOON).created_at
    with pytest.raises(MessageError, match="`created_at`: not a time: 'soon'"):
        Message("hi", created_at="soon")


def test_days_bound_a_search_and_date_an_addition(memory: devmem.Memory) -> None:
    memory.add("Tea in May.", time=date(2026, 5, 8))
    memory.add("Tea in June.", time=date(2026, 6, 8))
    assert [hit.text for hit in memory.search("tea", before=date(2026, 6, 1))] == ["Tea in May."]
    assert [hit.text for hit in memory.search("tea", after=date(2026, 6, 1))] == ["Tea in June."]
    within = devmem.Filter(after=datetime(2026, 6, 1).astimezone(), before=date(2026, 7, 1))  # type: ignore[arg-type]
    assert [record.text for record in memory.list(where=within)] == ["Tea in June."]
