"""Items of a memory: their snapshots, scope and provenance.

An item's JSON form (`dump_item`, `load_item`) is DevAll's (ChatDev 2) with more keys: `id`, `content_summary`,
`metadata`, `embedding`, `timestamp`, `input_snapshot`, `output_snapshot` mean what they mean there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import Enum, StrEnum
from functools import cache
from time import time as _now
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticSerializationError, SchemaValidator

from devmem.model.border import check_characters, clean_fields, is_fit
from devmem.model.message import KeepBlock, Message, MessageBlock, keep_unknown
from devmem.model.times import datetime_of, day_of

Vector: TypeAlias = NDArray[np.float32]
"""One embedding, shape (dimension,), or several, shape (n, dimension)."""


def _to_vector(raw: object) -> Vector | None:
    if raw is None:
        return None
    vector = np.asarray(raw, dtype=np.float32)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"an embedding is one row of numbers, not an array of shape {vector.shape}")
    return vector


def _from_vector(vector: Vector | None) -> list[float] | None:
    return None if vector is None else vector.tolist()


JsonVector = Annotated[Vector | None, PlainValidator(_to_vector), PlainSerializer(_from_vector)]


class AnyUser(Enum):
    """Type of `ANY`, which stands for every user."""

    ANY = "ANY"

    def __repr__(self) -> str:
        return "devmem.ANY"


ANY: Final = AnyUser.ANY
"""In place of a user: everybody's items, unscoped ones included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Owner of an item; None means that it is not bound to one."""

    agent: str | None = None
    user: str | None = None
    session: str | None = None
    conversation: str | None = None
    trace: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        # All parts at once: most calls make a scope.
        if not is_fit(f"{self.agent}{self.user}{self.session}{self.conversation}{self.trace}{self.run}"):
            for part in _SCOPE_PARTS:
                check_characters(part, str(getattr(self, part)))

    def admits(self, other: Scope, *, include_unscoped: bool = False) -> bool:
        """Whether `other` has the same value, or none with `include_unscoped`, wherever this scope has one."""
        for part in _SCOPE_PARTS:
            # A search asks this of every hit; most scopes have one part, or none.
            if (wanted := getattr(self, part)) is not None:
                found = getattr(other, part)
                if wanted != found and not (include_unscoped and found is None):
                    return False
        return True


_SCOPE_PARTS: Final = tuple(part.name for part in fields(Scope))


class SourceKind(StrEnum):
    """Kind of an item's origin."""

    NODE = "node"
    USER = "user"
    TOOL = "tool"
    FILE = "file"
    IMPORT = "import"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of an item."""

    kind: SourceKind = SourceKind.NODE
    name: str = ""
    """The node, tool, file or data set."""
    parents: tuple[str, ...] = ()
    """Ids of the items that it was derived from."""
    parent_hashes: tuple[str, ...] = ()
    """Hashes of what these said then (`parent_hash`), in their order, empty for one that was not in the same store; the
    store adds them."""

    def __post_init__(self) -> None:
        clean_fields(self, "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBlock:
    """A block of a snapshot, and the role of its author."""

    block: Annotated[MessageBlock, KeepBlock]
    role: str = "input"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContentSnapshot:
    """Input or output of a node, kept whole: its text and its multimodal blocks."""

    text: str = ""
    blocks: tuple[SnapshotBlock, ...] = ()

    def __post_init__(self) -> None:
        clean_fields(self, "text")

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Self | None:
        """Return the messages as `(role) text`, separated by blank lines; None when there are none."""
        if not messages:
            return None
        blocks = tuple(SnapshotBlock(role=m.role.value, block=block) for m in messages for block in m.blocks)
        return cls(text="\n\n".join(f"({m.role.value}) {m.content}" for m in messages), blocks=blocks)

    @classmethod
    def from_message(cls, message: Message | str) -> Self:
        """Return the snapshot of one message, or of a plain text."""
        if isinstance(message, str):
            return cls(text=message)
        blocks = tuple(SnapshotBlock(role=message.role.value, block=block) for block in message.blocks)
        return cls(text=message.content, blocks=blocks)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        form: dict[str, Any] = _snapshot_adapter().dump_python(self, mode="json", by_alias=True, exclude_none=True)
        return form

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any] | None) -> MemoryContentSnapshot | None:
        """Return the snapshot of a JSON form; None for none."""
        return _snapshot_adapter().validate_python(raw) if raw else None

    def to_message_blocks(self) -> list[MessageBlock]:
        """Return the blocks without their roles, in order."""
        return [kept.block for kept in self.blocks]

    def attachment_overview(self) -> list[dict[str, JsonValue]]:
        """Return the attachments without their bytes: role, attachment_id, mime_type, name and size in bytes."""
        return [
            {
                "role": kept.role,
                "attachment_id": ref.attachment_id,
                "mime_type": ref.mime_type,
                "name": ref.name,
                "size": ref.size,
            }
            for kept in self.blocks
            if (ref := kept.block.attachment) is not None
        ]

    def has_multimodal(self) -> bool:
        """Whether any block is more than text."""
        return any(kept.block.type != "text" for kept in self.blocks)


def content_hash(summary: str, *snapshots: MemoryContentSnapshot | None) -> str:
    """Return the SHA-256 of an item's texts and its attachments' identities, as 64 hex digits."""
    digest = hashlib.sha256(summary.encode())
    for snapshot in snapshots:
        digest.update(b"\x00snapshot\x00")
        if snapshot is None:
            continue
        digest.update(snapshot.text.encode())
        for kept in snapshot.blocks:
            ref = kept.block.attachment
            known_by = (
                (ref.sha256 or ref.data_uri or ref.remote_file_id or ref.attachment_id) if ref else kept.block.text
            )
            digest.update(f"\x00{kept.block.type}\x00{known_by or ''}".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MemoryItem:
    """One remembered thing: its text, its sources, its times, and whose it is."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    content_summary: str
    """The short text that is shown to an agent; searches see the snapshots as well."""
    id: str = ""
    """By default a new one."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    embedding: JsonVector = field(default=None, compare=False, repr=False)
    """Unit length, shape (dimension,); None when it is not made yet or was not read."""
    created_at: Annotated[
        float,
        Field(validation_alias=AliasChoices("timestamp", "created_at"), serialization_alias="timestamp"),
    ] = field(default_factory=_now)
    """Time of storing: seconds since the epoch, UTC."""
    input_snapshot: MemoryContentSnapshot | None = None
    output_snapshot: MemoryContentSnapshot | None = None
    scope: Scope = Scope()
    provenance: Provenance = Provenance()
    event_time: float | None = None
    """Time of the event that it describes: seconds since the epoch, UTC; None when it is unknown."""
    expires_at: float | None = None
    """Seconds since the epoch; from then on no search returns it. None means never."""
    trust: float = 1.0
    """Reliability of the content, from 0 (hearsay) to 1 (the user's own words)."""
    indexed_fields: tuple[str, ...] | None = None
    """Paths of the metadata that are searched too, each text by itself, such as `title` or `chapters[*].content`; none
    at all where it is empty. None leaves it to the store that the item is written to."""
    content_hash: str = ""
    """By default `content_hash` of the content."""

    def __post_init__(self) -> None:
        clean_fields(self, "content_summary", "metadata")
        if not self.id:
            object.__setattr__(self, "id", uuid4().hex)
        elif isinstance(self.id, str):
            check_characters("id", self.id)
        if not self.content_hash:
            digest = content_hash(self.content_summary, self.input_snapshot, self.output_snapshot)
            object.__setattr__(self, "content_hash", digest)

    @property
    def text(self) -> str:
        """The whole text: the summary, or what this was shortened from."""
        texts = [shot.text for shot in (self.input_snapshot, self.output_snapshot) if shot is not None and shot.text]
        if len(texts) != 1:
            return self.content_summary
        is_whole = self.is_message or texts[0].strip().startswith(self.content_summary.removesuffix("…"))
        return texts[0] if is_whole else self.content_summary

    @property
    def user(self) -> str | None:
        """The user that it belongs to; None where it is unscoped."""
        return self.scope.user

    @property
    def caller_metadata(self) -> dict[str, JsonValue]:
        """The metadata without what devmem itself notes there: an added message, a given vector, repetitions."""
        hidden = {REPEATS, VECTOR, *((MESSAGE_KEY, CAUSE_KEY) if self.is_message else ())}
        return {key: value for key, value in self.metadata.items() if key not in hidden}

    @property
    def vector(self) -> Vector | None:
        """The vector that the caller gave, of its own length; otherwise the embedding."""
        given = _GIVEN.fullmatch(str(self.metadata.get(VECTOR)))
        if self.embedding is None or given is None:
            return self.embedding
        scaled: Vector = (self.embedding * float.fromhex(given["length"])).astype(np.float32)
        return scaled

    @property
    def quarantine_reason(self) -> str | None:
        """Why the store's guard put it into quarantine; None where it did not."""
        mark = self.metadata.get(QUARANTINE)
        return str(mark.get("reason", "")) if isinstance(mark, Mapping) else None

    @property
    def stated_before(self) -> tuple[Mapping[str, JsonValue], ...]:
        """Earlier statements of the text, in order: `time`, in ISO 8601; `metadata` and `source` where they differ."""
        statements = self.metadata.get(REPEATS)
        return tuple(one for one in statements if isinstance(one, Mapping)) if isinstance(statements, list) else ()

    @property
    def time(self) -> datetime:
        """When it happened, where that is known, else when it was stored; UTC."""
        return datetime_of(self.created_at if self.event_time is None else self.event_time)

    @property
    def expires(self) -> datetime | None:
        """From then on it is neither found nor listed; UTC. None is never."""
        return None if self.expires_at is None else datetime_of(self.expires_at)

    @property
    def version(self) -> str:
        """Hash of all that an update can change; `Memory.update` can expect it."""
        return version_hash(self)

    @property
    def is_message(self) -> bool:
        """Whether a message was added; a caller's own metadata may have a key of the same name."""
        form = self.metadata.get(MESSAGE_KEY)
        is_form = isinstance(form, Mapping) and {"id", "role"} <= form.keys()
        return is_form and (self.input_snapshot or self.output_snapshot) is not None

    @property
    def message(self) -> Message | None:
        """The message that was added; None when it was a text."""
        from devmem.model.message_json import item_to_message  # it imports this module

        return item_to_message(self) if self.is_message else None

    @property
    def role(self) -> str | None:
        """Role of the message that was added; None when it was a text."""
        message = self.message
        return None if message is None else message.role.value

    @property
    def timestamp(self) -> float:
        """DevAll's name for `created_at`."""
        return self.created_at

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, as `dump_item` does; DevAll's name for it."""
        return dump_item(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> MemoryItem:
        """Return the item of a JSON form, as `load_item` does; DevAll's name for it."""
        return load_item(raw)

    def __repr__(self) -> str:
        return f"<MemoryItem {described(self)}>"

    def dated_summary(self) -> str:
        """Return the summary after the day of its event, if that is known: `[2026-05-08] ...`."""
        return ("" if self.event_time is None else _dated(self.event_time)) + self.content_summary.strip()

    def full_text(self) -> str:
        """Return the summary and the snapshot texts that it does not contain, one after the other.

        A search sees passages instead, without repetitions and with the day of the event.
        """
        snapshots = (self.input_snapshot, self.output_snapshot)
        texts = [snapshot.text for snapshot in snapshots if snapshot is not None]
        parts = [self.content_summary, *(text for text in texts if text and text not in self.content_summary)]
        return "\n".join(parts)

    def expired(self, now: float) -> bool:
        """Whether the item is past its `expires_at` at `now` (seconds since the epoch)."""
        return self.expires_at is not None and self.expires_at <= now


def described(item: MemoryItem) -> str:
    """Return the beginning of an item's text, its user and its id, for a `repr`."""
    text = item.text if len(item.text) <= _REPR_LENGTH else f"{item.text[: _REPR_LENGTH - 1].rstrip()}…"
    of_user = "" if item.user is None else f" of user {item.user!r}"
    return f"{text!r}{of_user}, id {item.id!r}"


def _dated(seconds: float) -> str:
    day = day_of(seconds)
    return f"[{day}] " if day else ""


_REPR_LENGTH: Final = 60
"""Characters of a text in a `repr`."""
MESSAGE_KEY: Final = "message"
"""Metadata key of a message's JSON form without its text and blocks, which the item's snapshot holds."""
CAUSE_KEY: Final = "cause_by"
VECTOR: Final = "devmem.vector"
"""Metadata key of a vector that the caller gave: its length, and a hash that tells it from others of the same text."""
_GIVEN: Final = re.compile(r"(?P<length>0x1\.[0-9a-f]+p[-+][0-9]{1,4}) [0-9a-f]{16}")
PARENT_HASH: Final = 16
"""Number of hex digits of a parent's hash: those that its `content_hash` begins with."""


def parent_hash(item: MemoryItem) -> str:
    """Return the hash by which an item that was derived from this one knows what it said."""
    return item.content_hash[:PARENT_HASH]


_ITEM_KEYS = frozenset(f.name for f in fields(MemoryItem)) | {"timestamp"}


def _tolerate_old(raw: object) -> object:
    """Accept DevAll's forms: null for an empty mapping, a snapshot or a time, and keys of its own."""
    if not isinstance(raw, Mapping):
        return raw
    given = {key: value for key, value in raw.items() if value is not None}
    return keep_unknown(given, known=_ITEM_KEYS, into="metadata")


@cache
def _adapter() -> TypeAdapter[MemoryItem]:
    # Built on first use: it takes longer than the rest of the import.
    return TypeAdapter(Annotated[MemoryItem, BeforeValidator(_tolerate_old)])


@cache
def _snapshot_adapter() -> TypeAdapter[MemoryContentSnapshot]:
    return TypeAdapter(MemoryContentSnapshot)


@cache
def _stored() -> SchemaValidator:
    """Return what reads the JSON of stored items: they have passed the border, and are not cleaned again."""
    schema = cast("Any", TypeAdapter(MemoryItem).core_schema)
    return SchemaValidator(schema | {"schema": schema["schema"] | {"post_init": False}})


def load_item(raw: Mapping[str, Any]) -> MemoryItem:
    """Return the item of a JSON form, devmem's or DevAll's.

    Raises:
        pydantic.ValidationError: the mapping is not an item.
    """
    return _adapter().validate_python(raw)


def load_item_json(raw: str | bytes, digest: str = "", embedding: Vector | None = None) -> MemoryItem:
    """Return the item of a stored JSON text, with the content hash and the embedding that are stored beside it.

    Raises:
        pydantic.ValidationError: it is not an item.
    """
    try:
        # A form of our own is read without a Python object in between, in a sixth of the time.
        item: MemoryItem = _stored().validate_json(raw)
    except ValidationError:
        item = _adapter().validate_json(raw)
    known = item.content_hash or digest or content_hash(item.content_summary, item.input_snapshot, item.output_snapshot)
    object.__setattr__(item, "content_hash", known)
    object.__setattr__(item, "embedding", item.embedding if embedding is None else embedding)
    return item


def why_unreadable(error: Exception) -> str:
    """Return in one line why `load_item_json` could not read an item, with the key that is wrong."""
    if not isinstance(error, ValidationError):
        return (str(error) or type(error).__name__).splitlines()[0]
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def dump_item(item: MemoryItem) -> dict[str, Any]:
    """Return the item's JSON form, its embedding included; absent values are left out."""
    form: dict[str, Any] = _adapter().dump_python(item, mode="json", by_alias=True, exclude_none=True)
    return form


def dump_item_json(item: MemoryItem, *, is_stored: bool = False) -> bytes:
    """Return the item's JSON form as UTF-8 text, without embedding, defaults and, to be stored, a derived content hash.

    Raises:
        ValueError: a value is of another type than its field, and could not be read again.
    """
    derived = content_hash(item.content_summary, item.input_snapshot, item.output_snapshot) if is_stored else None
    without = {"embedding", "content_hash"} if item.content_hash == derived else {"embedding"}
    try:
        return _adapter().dump_json(item, by_alias=True, exclude=without, exclude_defaults=True, warnings="error")
    except PydanticSerializationError as error:
        raise ValueError(f"item {item.id!r} cannot be stored: {error}") from error


TRUST: Final[Mapping[SourceKind, float]] = MappingProxyType(
    {
        SourceKind.USER: 1.0,
        SourceKind.NODE: 0.8,
        SourceKind.SUMMARY: 0.8,
        SourceKind.FILE: 0.6,
        SourceKind.IMPORT: 0.6,
        SourceKind.TOOL: 0.4,
    }
)
"""From 0 to 1: a user's own words first, then what agents conclude, then documents, then what tools return, which
anybody on the network may have written. An attachment's `min_trust` is compared with it."""

LEAST_TRUST: Final = 1e-6
"""Trust below which an item is in quarantine: no search returns it, so that no agent is shown it, while it can still be
read by its id, listed, changed and forgotten."""

QUARANTINE: Final = "quarantine"
"""Metadata key of what a store's guard notes of an item in quarantine: `reason`, `at`, and what approving restores."""

APPROVED: Final = "approved"
"""Metadata key of the decision to take an item out of quarantine: `at`, `reason`, and why it was `caught`."""

PINNED: Final = "pinned"
"""Metadata key of an item that retention keeps where its value is `true`: neither a store's `max_items` and `retention`
nor `trim` deletes it."""


def is_quarantined(item: MemoryItem) -> bool:
    """Whether no search returns an item, because its trust is 0."""
    return item.trust < LEAST_TRUST


def is_pinned(item: MemoryItem) -> bool:
    """Whether retention keeps an item, however old it is and however many came after it."""
    return item.metadata.get(PINNED) is True


def version_hash(item: MemoryItem) -> str:
    """Return the SHA-256 of all of an item that an update can change, as 64 hex digits.

    That is its content, metadata, indexed fields, scope, provenance, times of event and expiry, and trust.
    The id, the time of storing and the embedding do not count: an item that is stored again as it was is the same
    version.
    """
    times = (None if time is None else float(time) for time in (item.event_time, item.expires_at))
    parts = [
        item.content_hash,
        dict(item.metadata),
        {part: getattr(item.scope, part) for part in _SCOPE_PARTS},
        [item.provenance.kind.value, item.provenance.name, *item.provenance.parents],
        *times,
        float(item.trust),
    ]
    if item.indexed_fields is not None:
        parts.append({"indexed_fields": list(item.indexed_fields)})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


KEY: Final = "key"
"""Metadata key of an item's key."""

REPEATS: Final = "devmem.stated_before"
"""Metadata key of the earlier statements of an item's text."""

AGENT_KEY: Final = "agent"
"""Metadata key of the name of the agent that wrote an item."""


def agent_of(item: MemoryItem) -> str | None:
    """Return the agent whose item it is: that of its scope, or else the one that wrote it."""
    if item.scope.agent is not None:
        return item.scope.agent
    writer = item.metadata.get(AGENT_KEY)
    return writer if isinstance(writer, str) and writer else None


def with_key(item: MemoryItem, key: str, scope: Scope) -> MemoryItem:
    """Return an item under the id that its key has within a scope, so that it replaces the value stored there.

    Its scope's user, agent, session and conversation tell keys apart; trace and run do not. The replaced value is the
    item's earlier version.

    Raises:
        ValueError: the key is blank.
    """
    if not key.strip():
        raise ValueError("`key` is empty; leave it out where there is none")
    named = json.dumps([KEY, key, scope.user, scope.agent, scope.session, scope.conversation])
    return replace(item, id=hashlib.sha256(named.encode()).hexdigest()[:32], metadata={**item.metadata, KEY: key})


FACT: Final = "fact"
"""Metadata key of a fact's parts: `key`, `subject`, `attribute`, `value`, `quote`, and of its time: `time`, `from`,
`until`."""
FACT_KEY: Final = "fact_key"
"""Metadata key of a fact's subject and attribute, as `ann.diet`."""
FACT_SOURCE: Final = "fact_of"
"""Metadata key of the id of the item that a fact was extracted from."""
_FACT_PARTS: Final = ("user", "agent", "session", "conversation")


def fact_id(scope: Scope, key: tuple[str, str]) -> str:
    """Return the id that the fact of a subject and an attribute has within a scope; no item with a key has it."""
    named = json.dumps([FACT, *key, *(getattr(scope, part) for part in _FACT_PARTS)])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def is_fact(item: MemoryItem) -> bool:
    """Whether an item is a fact that was extracted from another one, its source."""
    parts = item.metadata.get(FACT)
    if not isinstance(parts, Mapping) or len(item.provenance.parents) != 1:
        return False
    key = parts.get("key")
    return isinstance(key, list) and len(key) == 2 and item.id == fact_id(item.scope, (str(key[0]), str(key[1])))
