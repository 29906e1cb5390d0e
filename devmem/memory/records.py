"""Remembered things as callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from pydantic import JsonValue

from devmem.model.items import MemoryItem, Scope, version_hash
from devmem.model.message import Message
from devmem.model.message_json import CAUSE_KEY, MESSAGE_KEY, holds_message, item_to_message
from devmem.model.results import Hit
from devmem.model.versions import Change, ItemDifference, ItemVersion, Operation
from devmem.text.analysis import shorten
from devmem.text.moments import parse_moment
from devmem.transfer.importing.records import SUMMARY_LENGTH

When: TypeAlias = datetime | float | str
"""A point in time: a `datetime` (a naive one is local time, as Python has it), seconds since the epoch, or text such as
`2026-06-02`, `2026-06-02T14:30:00Z`, `yesterday`, `3 days ago` or `in 30 days` (local time where it names no zone)."""


def seconds_of(when: When, now: float | None = None, *, ahead: bool = False) -> float:
    """Return the seconds since the epoch, UTC; see `parse_moment` for `now` and `ahead`.

    Raises:
        ValueError: it is no point in time.
    """
    return when.timestamp() if isinstance(when, datetime) else parse_moment(when, now=now, ahead=ahead)


def expiry_of(expires_at: When | timedelta, now: float) -> float:
    """Return the seconds since the epoch at which something expires; a `timedelta` counts from `now`.

    Raises:
        ValueError: it is no point in time, or one that is past.
    """
    expiry = (
        now + expires_at.total_seconds()
        if isinstance(expires_at, timedelta)
        else seconds_of(expires_at, now, ahead=True)
    )
    if expiry <= now:
        raise ValueError(f"`expires_at` is {datetime_of(expiry).isoformat()}, which is past; forget the item instead")
    return expiry


def datetime_of(seconds: float) -> datetime:
    """Return the time in UTC; what no calendar has becomes its first or last moment."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


_MESSAGE_KEYS: Final = frozenset({MESSAGE_KEY, CAUSE_KEY})
"""Metadata keys of what `MemoryRecord.message` returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One remembered thing."""

    text: str
    """The text that was remembered, whole."""
    id: str
    user: str | None
    """The user that it belongs to; None is nobody."""
    metadata: Mapping[str, JsonValue]
    time: datetime
    """When it happened, where that is known, else when it was stored; UTC."""
    expires_at: datetime | None
    """From then on it is neither found nor listed; None is never."""
    item: MemoryItem = field(repr=False)
    """All that is kept of it: scope, snapshots, provenance, trust."""

    @property
    def scope(self) -> Scope:
        """Who or what it belongs to: user, agent, session, conversation."""
        return self.item.scope

    @property
    def version(self) -> str:
        """Hash of all that an update can change; `Memory.update` can expect it."""
        return version_hash(self.item)

    @property
    def message(self) -> Message | None:
        """The message that was added; None when it was a text."""
        return item_to_message(self.item) if _is_message(self.item) else None

    @property
    def role(self) -> str | None:
        """Role of the message that was added; None when it was a text."""
        message = self.message
        return None if message is None else message.role.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit(MemoryRecord):
    """A remembered thing that a search found."""

    score: float
    """Key that the hits are ordered by, larger is better; comparable within one memory."""
    hit: Hit = field(repr=False)
    """Every signal that ranked it."""

    @property
    def snippet(self) -> str:
        """Text that an agent is shown: the text, or of a long one its start and the passage that was found."""
        return self.hit.text()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVersion:
    """A remembered thing as it was for a time."""

    record: MemoryRecord
    operation: Operation
    """The change that made it so."""
    run: str | None
    """The run in which it was made so; None outside of runs."""
    actor: str | None
    """The node, tool or user that is known to have made it so."""
    since: datetime
    """When it was made so; UTC."""
    until: datetime | None
    """When another version took its place, or it was forgotten, exclusive; None for the current version."""
    ended_by: Change | None
    """The change that ended it."""


def version_of(version: ItemVersion) -> RecordVersion:
    """Return a version of an item as callers see it."""
    began, ended = version.began, version.ended
    return RecordVersion(
        record=record_of(version.item),
        operation=began.operation,
        run=began.run,
        actor=began.actor,
        since=datetime_of(began.at or 0.0),
        until=None if ended is None else datetime_of(ended.at or 0.0),
        ended_by=ended,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDifference:
    """A remembered thing that differs between two states of a memory."""

    before: MemoryRecord | None
    """None when it was not there."""
    after: MemoryRecord | None
    """None when it is not there any more."""
    operation: Operation
    """`add`, `update` or `forget`: the change that leads from one to the other."""


def difference_of(found: ItemDifference) -> RecordDifference:
    """Return a difference of items as callers see it."""
    before, after = (None if item is None else record_of(item) for item in (found.before, found.after))
    return RecordDifference(before=before, after=after, operation=found.operation)


def record_of(item: MemoryItem) -> MemoryRecord:
    """Return an item as a record."""
    return MemoryRecord(**_facts(item), item=item)  # type: ignore[arg-type]


def search_hit_of(hit: Hit) -> SearchHit:
    """Return a store's hit as a record with its score."""
    return SearchHit(**_facts(hit.item), item=hit.item, score=hit.score, hit=hit)  # type: ignore[arg-type]


def _facts(item: MemoryItem) -> dict[str, object]:
    hidden = _MESSAGE_KEYS if _is_message(item) else frozenset()
    return {
        "text": text_of(item),
        "id": item.id,
        "user": item.scope.user,
        "metadata": {key: value for key, value in item.metadata.items() if key not in hidden},
        "time": datetime_of(item.created_at if item.event_time is None else item.event_time),
        "expires_at": None if item.expires_at is None else datetime_of(item.expires_at),
    }


def _is_message(item: MemoryItem) -> bool:
    """Whether an item was made of a message; a caller's own metadata may have a key of the same name."""
    form = item.metadata.get(MESSAGE_KEY)
    return isinstance(form, Mapping) and {"id", "role"} <= form.keys() and holds_message(item)


def text_of(item: MemoryItem) -> str:
    """Return the whole text of an item: its summary, or what this was shortened from."""
    texts = [shot.text for shot in (item.input_snapshot, item.output_snapshot) if shot is not None and shot.text]
    if len(texts) != 1:
        return item.content_summary
    if _is_message(item) or shorten(texts[0], SUMMARY_LENGTH) == item.content_summary:
        return texts[0]
    return item.content_summary
