"""Metadata of records, such as calls, messages and calendar entries: what kind, with whom, where, from when to when.

Importers and adapters fill them, and callers may; each is optional. An item with a known kind and a time is a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from devmem.model.items import MemoryItem

KIND: Final = "kind"
"""Metadata key of the kind of record, one of `KINDS`."""
WITH: Final = "with"
"""Metadata key of the people or organisations other than the owner: a name, or a list of names."""
WHERE: Final = "where"
"""Metadata key of the place."""
FROM: Final = "from"
"""Metadata key of the start, a time in ISO 8601."""
TO: Final = "to"
"""Metadata key of the end, a time in ISO 8601; exclusive."""
KINDS: Final[Mapping[str, str]] = {
    "message": "message 短信 消息",
    "call": "call 电话",
    "event": "event 日程",
    "note": "note 笔记",
    "photo": "photo 照片",
    "notification": "notification 通知",
    "chat": "chat 聊天",
}
"""Kinds of records, and the words by which full-text search finds each in the languages of questions."""


def is_record(item: MemoryItem) -> bool:
    """Whether an item is a record of something that happened at a known time."""
    return item.event_time is not None and _has_kind(item.metadata)


def _has_kind(metadata: Mapping[str, object]) -> bool:
    kind = metadata.get(KIND)
    return isinstance(kind, str) and kind in KINDS


def start_of(metadata: Mapping[str, object]) -> float | None:
    """Return the start of a record in seconds since the epoch; None where its metadata have none, or no kind."""
    return _seconds(metadata.get(FROM)) if _has_kind(metadata) else None


def words_of(item: MemoryItem, text: str) -> list[str]:
    """Return what a record is found by that a text does not say: its kind, its people and its place."""
    if not is_record(item):
        return []
    return [KINDS[str(item.metadata[KIND])], *(name for name in (*people_of(item), place_of(item)) if name not in text)]


def people_of(item: MemoryItem) -> list[str]:
    """Return the names of the people an item is shared with; empty where none are recorded."""
    found = item.metadata.get(WITH)
    names = found if isinstance(found, list | tuple) else [found]
    return [name for name in names if isinstance(name, str) and name.strip()]


def place_of(item: MemoryItem) -> str:
    """Return the place of an item; empty where none is recorded."""
    found = item.metadata.get(WHERE)
    return found.strip() if isinstance(found, str) else ""


def span_of(metadata: Mapping[str, object]) -> tuple[float, float] | None:
    """Return start and end in seconds since the epoch; None where one is missing or is not a time in ISO 8601.

    A time without a zone is UTC, as for filters.
    """
    start, end = (_seconds(metadata.get(key)) for key in (FROM, TO))
    return (start, end) if start is not None and end is not None and start < end else None


def _seconds(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None  # "from" may be a sender's address
