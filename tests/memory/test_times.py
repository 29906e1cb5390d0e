"""Times of what is added: one reader for texts and messages, whatever key and form a program has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import devmem

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
        int(NOON.timestamp()) * 1000,
        "2026-11-05T12:00:00Z",
        NOON.astimezone().replace(tzinfo=None),
        "Thu, 5 Nov 2026 12:00:00 +0000",
    ],
)
def test_a_time_is_read_under_each_key_in_each_form(memory: devmem.Memory, made: Content, key: str, when: Any) -> None:
    memory.add(made({key: when}))
    (record,) = memory.list()
    assert record.time == NOON
    assert record.caller_metadata == {}


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
