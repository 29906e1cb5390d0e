"""Remembered things as callers see them: whole texts, and times as `datetime`, over the plain types of a store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final, TypeAlias, TypeVar

import numpy as np
from pydantic import JsonValue

from devmem.model.items import QUARANTINE, REPEATS, MemoryItem, Scope, Vector, version_hash
from devmem.model.message import Message
from devmem.model.message_json import CAUSE_KEY, MESSAGE_KEY, holds_message, item_to_message
from devmem.model.results import Hit, html_table
from devmem.model.times import When
from devmem.model.versions import Change, ItemDifference, ItemVersion, Operation
from devmem.text.analysis import SUMMARY_LENGTH, shorten
from devmem.text.moments import local, parse_moment

Numbers: TypeAlias = Sequence[float] | Vector
"""A vector, shape (dimension,)."""
_MESSAGE_KEYS: Final = frozenset({MESSAGE_KEY, CAUSE_KEY})
"""Metadata keys of what `MemoryRecord.message` returns."""
VECTOR: Final = "devmem.vector"
"""Metadata key of a vector that the caller gave: its length, and a hash that tells it from others of the same text."""
_GIVEN: Final = re.compile(r"(?P<length>0x1\.[0-9a-f]+p[-+][0-9]{1,4}) [0-9a-f]{16}")
_REPR_LENGTH: Final = 60
"""Characters of a text in a `repr`."""


def expiry_of(expires_at: When | timedelta, now: float) -> float:
    """Return the seconds since the epoch at which something expires; a `timedelta` counts from `now`.

    Raises:
        ValueError: it is not a point in time, or one that is past.
    """
    if isinstance(expires_at, timedelta):
        expiry = now + expires_at.total_seconds()
    else:
        expiry = parse_moment(expires_at, now=now, ahead=True)
    if expiry <= now:
        raise ValueError(f"`expires_at` is {datetime_of(expiry).isoformat()}, which is past; forget the item instead")
    return expiry


def datetime_of(seconds: float) -> datetime:
    """Return the time in UTC; a time that no calendar has becomes its first or last moment."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryRecord:
    """One remembered thing."""

    item: MemoryItem
    """Everything that is stored of it: scope, snapshots, provenance, trust."""

    @property
    def text(self) -> str:
        """The text that was remembered, whole."""
        return text_of(self.item)

    @property
    def id(self) -> str:
        """The id by which it is read, updated and forgotten."""
        return self.item.id

    @property
    def user(self) -> str | None:
        """The user that it belongs to; None where it is unscoped."""
        return self.item.scope.user

    @property
    def scope(self) -> Scope:
        """Who or what it belongs to: user, agent, session, conversation."""
        return self.item.scope

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """The caller's metadata."""
        hidden = {REPEATS, VECTOR, *(_MESSAGE_KEYS if _is_message(self.item) else ())}
        return {key: value for key, value in self.item.metadata.items() if key not in hidden}

    @property
    def embedding(self) -> Vector | None:
        """The vector that was given with it, float32 of shape (dimension,); otherwise that of its first passage.

        None where it has none, or where the store of this type does not return it.
        """
        given = _GIVEN.fullmatch(str(self.item.metadata.get(VECTOR)))
        if self.item.embedding is None or given is None:
            return self.item.embedding
        # What is stored has unit length.
        scaled: Vector = (self.item.embedding * float.fromhex(given["length"])).astype(np.float32)
        return scaled

    @property
    def quarantine_reason(self) -> str | None:
        """Why the store's guard put it into quarantine; None where it did not."""
        mark = self.item.metadata.get(QUARANTINE)
        return str(mark.get("reason", "")) if isinstance(mark, Mapping) else None

    @property
    def stated_before(self) -> tuple[Mapping[str, JsonValue], ...]:
        """Earlier statements of the text, in order: `time`, in ISO 8601; `metadata` and `source` where they differ."""
        statements = self.item.metadata.get(REPEATS)
        return tuple(one for one in statements if isinstance(one, Mapping)) if isinstance(statements, list) else ()

    @property
    def time(self) -> datetime:
        """When it happened, where that is known, else when it was stored; UTC."""
        return datetime_of(self.item.created_at if self.item.event_time is None else self.item.event_time)

    @property
    def expires_at(self) -> datetime | None:
        """From then on it is neither found nor listed; None is never."""
        return None if self.item.expires_at is None else datetime_of(self.item.expires_at)

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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shorten(self.text, _REPR_LENGTH)!r}{_of_user(self)}, id {self.id!r}>"

    def _repr_html_(self) -> str:
        return Records([self])._repr_html_()


@dataclass(frozen=True, slots=True, repr=False)
class SearchHit(MemoryRecord):
    """A remembered thing that a search found."""

    hit: Hit
    """Every signal that ranked it."""

    @property
    def score(self) -> float:
        """Score by which the hits are ordered, larger is better; comparable within one memory."""
        return self.hit.score

    @property
    def same_as(self) -> tuple[str, ...]:
        """Ids of the copies that the search left out because they say the same."""
        return self.hit.same_as

    @property
    def stale(self) -> str:
        """Why it may no longer hold, such as "based on something that changed"; empty where nothing says so."""
        return self.hit.stale

    @property
    def snippet(self) -> str:
        """Text that an agent is shown: the text, or of a long one its start and the passage that was found."""
        return self.hit.text()

    def __repr__(self) -> str:
        text = shorten(self.text, _REPR_LENGTH)
        return f"<SearchHit {self.score:.3f} {text!r}{_of_user(self)}, id {self.id!r}>"

    def _repr_html_(self) -> str:
        return Hits([self])._repr_html_()


@dataclass(frozen=True, slots=True)
class StaleRecord:
    """A remembered thing that may no longer hold."""

    record: MemoryRecord
    """The thing."""
    reason: str
    """Why, such as "based on something that changed"."""
    parent: str
    """Id of the record that changed, is gone, or is stale itself."""


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """A remembered thing as it was for a time."""

    version: ItemVersion = field(repr=False)
    """The version as the store keeps it."""
    replaced: str | None = field(default=None, repr=False)
    """`version` of the record whose place it took; None where it took none."""

    @property
    def record(self) -> MemoryRecord:
        """The remembered thing as it was."""
        return MemoryRecord(self.version.item)

    @property
    def operation(self) -> Operation:
        """The change that made it so."""
        return self.version.began.operation

    @property
    def run(self) -> str | None:
        """The run in which it was made so; None outside of runs."""
        return self.version.began.run

    @property
    def actor(self) -> str | None:
        """The node, tool or user that is known to have made it so."""
        return self.version.began.actor

    @property
    def since(self) -> datetime:
        """When it was made so; UTC."""
        return datetime_of(self.version.began.at or 0.0)

    @property
    def until(self) -> datetime | None:
        """When another version took its place, or it was forgotten, exclusive; None for the current version."""
        return None if self.ended_by is None else datetime_of(self.ended_by.at or 0.0)

    @property
    def ended_by(self) -> Change | None:
        """The change that ended it."""
        return self.version.ended

    def __repr__(self) -> str:
        until = "now" if self.until is None else _shown(self.until)
        return f"<RecordVersion {self.operation} {_shown(self.since)} to {until}: {self.record!r}>"


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """A remembered thing that differs between two states of a memory."""

    difference: ItemDifference = field(repr=False)
    """The difference as the store reports it."""

    @property
    def before(self) -> MemoryRecord | None:
        """The record in the earlier state; None where it did not exist."""
        return None if self.difference.before is None else MemoryRecord(self.difference.before)

    @property
    def after(self) -> MemoryRecord | None:
        """The record in the later state; None where it does not exist any more."""
        return None if self.difference.after is None else MemoryRecord(self.difference.after)

    @property
    def operation(self) -> Operation:
        """`add`, `update` or `forget`: the change that leads from one to the other."""
        return self.difference.operation

    def __repr__(self) -> str:
        return f"<RecordDifference {self.operation}: {self.after or self.before!r}>"


T = TypeVar("T")


class _Table(list[T]):
    """A list that a notebook shows as a table."""

    columns: ClassVar[tuple[str, ...]]

    def cells(self, row: T) -> tuple[object, ...]:
        """Return the cells of one row, in the order of `columns`."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_table(self.columns, map(self.cells, self))


class Records(_Table[MemoryRecord]):
    """Records of a memory, in order."""

    columns = ("text", "user", "time", "metadata", "id")

    def cells(self, row: MemoryRecord) -> tuple[object, ...]:
        """Return what a table shows of a record."""
        return shorten(row.text, 300), row.user or "", _shown(row.time), dict(row.metadata) or "", row.id


class Hits(_Table[SearchHit]):
    """Hits of a search, best first."""

    columns = ("score", "text", "user", "time", "id")

    def __init__(
        self,
        hits: Iterable[SearchHit] = (),
        *,
        left_out: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take the hits; `left_out` counts the items that the search left out because they belong to users."""
        super().__init__(hits)
        self._count, self._left_out = left_out, -1

    def __reduce__(self) -> tuple[type[Hits], tuple[list[SearchHit]]]:
        # The counting function knows the memory, which stays in its process.
        return Hits, (list(self),)

    @property
    def left_out(self) -> int:
        """Number of items that match the search's filter but belong to users, none of whom was named.

        They are counted when this is read first. It is 0 for a search that names a user, and for a scoped handle.
        """
        if self._left_out < 0:
            self._left_out = max(self._count(), 0)
        return self._left_out

    def cells(self, row: SearchHit) -> tuple[object, ...]:
        """Return what a table shows of a hit."""
        return f"{row.score:.3f}", shorten(row.snippet, 300), row.user or "", _shown(row.time), row.id


class History(_Table[RecordVersion]):
    """Versions of a record, oldest first."""

    columns = ("since", "until", "operation", "text", "actor", "run")

    def cells(self, row: RecordVersion) -> tuple[object, ...]:
        """Return what a table shows of a version."""
        since, until = _shown(row.since), _shown(row.until) if row.until else ""
        return since, until, row.operation.value, shorten(row.record.text, 300), row.actor or "", row.run or ""


def _shown(time: datetime) -> str:
    """Return a time for people, in the local zone."""
    try:
        return f"{local(time.timestamp()):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        # The first and the last moment of the calendar have no local time everywhere.
        return f"{time:%Y-%m-%d %H:%M:%S}"


def record_of(item: MemoryItem) -> MemoryRecord:
    """Return an item as a record."""
    return MemoryRecord(item)


def _of_user(record: MemoryRecord) -> str:
    return "" if record.user is None else f" of user {record.user!r}"


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
