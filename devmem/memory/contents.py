"""From texts and messages, as callers give them, to items."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypeAlias, TypedDict

import numpy as np
from pydantic import JsonValue

from devmem.memory.scope import ScopeParts, checked_mapping, checked_name
from devmem.model.border import clean_values
from devmem.model.fields import is_path
from devmem.model.items import (
    MESSAGE_KEY,
    REPEATS,
    TRUST,
    VECTOR,
    MemoryContentSnapshot,
    MemoryItem,
    Provenance,
    Scope,
    SourceKind,
    Vector,
    with_key,
)
from devmem.model.message import MadeId, Message, Role
from devmem.model.message_json import load_message, message_to_item, readable_text
from devmem.model.record_fields import start_of
from devmem.model.times import TIME_KEYS, When, datetime_of, time_key
from devmem.models.given_vectors import checked_vector
from devmem.text.analysis import SUMMARY_LENGTH, shorten
from devmem.text.moments import parse_moment

Content: TypeAlias = str | Message | Mapping[str, Any]
"""A text, or a message: devmem's, or a dict with `role` and `content` as chat APIs have it; a dict with `text` is a
text."""

Numbers: TypeAlias = Sequence[float] | Vector
"""A vector, shape (dimension,)."""
_LOG: Final = logging.getLogger(__name__)
_ROLES: Final[Mapping[object, str]] = {"developer": "system", "function": "tool"}
"""Roles of chat APIs that have another name here."""
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
_NOTHING: Final[Mapping[str, object]] = {}


class AddOptions(ScopeParts, total=False):
    """Options of `Memory.add`, for all that it is given."""

    metadata: Mapping[str, JsonValue] | None
    """Facts beside the text; searches and `forget` can ask for its values."""
    time: When | None
    """When it happened; None is not known, or the message's own time."""
    expires_at: When | timedelta | None
    """From when on it is forgotten, or how long from now."""
    trust: float | None
    """From 0 (hearsay) to 1 (the user's own words); None takes its source's: user 1, agent 0.8, tool 0.4."""
    source: Provenance | None
    """Origin of a text (`devmem.stores.Provenance`); None is the scope's agent, else its user."""
    derived_from: Sequence[str] | None
    """Ids of the records that it was concluded from; once these change, it is stale (`Memory.stale`)."""
    fields: Sequence[str] | None
    """Paths of the metadata that are searched too, such as `title`; None takes those of the store."""
    history: bool
    """Whether the messages are their conversation so far, of which only those beyond the stored ones are new."""


class ConsolidateOptions(ScopeParts, total=False):
    """Options of `Memory.consolidate`."""

    ignore: Sequence[str]
    """Metadata keys whose values may differ."""
    digest_before: When | None
    """Add a digest of each conversation that ended before this time; None adds none."""
    archive_before: When | None
    """Archive what was stored before this time, is of low trust, and no agent was ever shown as far as recalls are
    recorded; None archives nothing."""
    max_trust: float
    """Trust up to which records are archived, by default 0.5."""


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


class NamedOptions(TypedDict, total=False):
    """Options of `Memory.add` for a single text."""

    id: str | None
    """Id of its item, which replaces the item of this id in the same scope; None makes one."""
    key: str | None
    """Name of the fact that it states, such as `diet`, instead of an id: within the same scope the text takes the place
    of the one before, which `history` keeps. It is kept as the metadata `key`."""
    embedding: Numbers | None
    """Its vector, of the model that the memory was opened with, shape (dimension,)."""
    if_version: str | None
    """With `id` or `key`, `version` of the only item that the text may replace; `none` where there must be none yet.
    Without it, whoever writes last replaces what is there."""


class OutcomeOptions(AddOptions, NamedOptions, total=False):
    """Options of `Memory.add_outcomes`; those of `Memory.add`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Facts that all items of one call have in common."""

    scope: Scope
    metadata: Mapping[str, JsonValue]
    stored_at: float
    """Seconds since the epoch, as all times here."""
    event_time: float | None
    expires_at: float | None
    trust: float | None
    """None takes that of the source, see `TRUST`."""
    source: Provenance | None
    """Origin of texts; None is the agent of the scope, else its user. The role of a message names its own."""
    parents: tuple[str, ...]
    """Ids of the records that the texts were derived from."""
    fields: tuple[str, ...] | None
    """See `MemoryItem.indexed_fields`."""


def envelope_of(scope: Scope, now: float, options: Mapping[str, Any]) -> Envelope:
    """Return what the `AddOptions` of a call mean at the time `now`, in seconds since the epoch.

    Raises:
        TypeError: the metadata are not a mapping, or the ids no list of texts.
        ValueError: a time is not one, trust is not from 0 to 1, a field is not a path, or JSON cannot hold a value.
    """
    time, expires_at, ids = (options.get(name) for name in ("time", "expires_at", "derived_from"))
    check_trust(options.get("trust"))
    if isinstance(ids, str) or not all(isinstance(each, str) for each in ids or ()):
        raise TypeError(f"`derived_from` is a list of ids, not {ids!r}")
    return Envelope(
        scope=scope,
        metadata=checked_metadata(options.get("metadata")),
        stored_at=now,
        event_time=None if time is None else parse_moment(time),
        expires_at=None if expires_at is None else expiry_of(expires_at, now),
        trust=options.get("trust"),
        source=options.get("source"),
        parents=tuple(dict.fromkeys(ids or ())),
        fields=field_paths(options.get("fields")),
    )


def check_trust(trust: object) -> None:
    """Refuse a trust that is not from 0 to 1; raises `ValueError`."""
    if trust is not None and not (isinstance(trust, int | float) and 0 <= trust <= 1):
        raise ValueError(f"`trust` is from 0 to 1, not {trust!r}")


def checked_metadata(metadata: Mapping[str, JsonValue] | None) -> Mapping[str, JsonValue]:
    """Return metadata, empty for None.

    Raises:
        TypeError: they are not a mapping with text keys.
        ValueError: a value cannot be kept, see `clean_values`.
    """
    return clean_values("metadata", checked_mapping("metadata", metadata))


def field_paths(fields: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the paths of fields; raises `ValueError` for what are none, such as a single text."""
    if isinstance(fields, str) or not all(map(is_path, fields or ())):
        raise ValueError(f"`fields` are paths such as 'title' or 'chapters[*].content', in a list, not {fields!r}")
    return None if fields is None else tuple(fields)


_OF_TEXTS: Final = ("metadata", "time", "expires_at", "trust", "id", "key", "embedding", "if_version")
"""Keys that a dict with a text may have beside it; its time may have any of `TIME_KEYS`."""
_FORMS: Final = (
    "a text, a devmem.messages.Message, a dict with `role` and `content`, a dict with `text` (and "
    f"{', '.join(f'`{key}`' for key in _OF_TEXTS)}), or a list of these"
)
_MESSAGE_FORM: Final = frozenset({"role", "content", "blocks", "instruct_content"})
"""Keys of which a dict with none is not a message."""


def listed(
    content: Content | Iterable[Content], named: Mapping[str, object] = _NOTHING, *, may_be_blank: bool = False
) -> list[Content]:
    """Return the texts and messages as a list.

    Args:
        content: one of them, or several.
        named: what is said of a text beside it: `id`, `key`, `embedding`, `if_version`.
        may_be_blank: whether something else stands for texts that are blank.

    Raises:
        TypeError: one has none of the forms that are accepted.
        ValueError: a text is blank, and has neither metadata nor a vector.
    """
    given: list[Any]
    several: object = content
    if isinstance(content, str | Message | Mapping):
        given = [{"text": content, **named}] if isinstance(content, str) and named else [content]
    elif isinstance(several, Iterable) and not isinstance(several, bytes | bytearray):
        given = list(several)
    else:
        raise TypeError(f"nothing that can be remembered: {content!r:.60}; expected {_FORMS}")
    for at, one in enumerate(given):
        form = one if isinstance(one, Mapping) and _is_text_form(one) else {"text": one}
        text = form["text"]
        # A `text` where `content` is expected would be lost among the message's metadata.
        is_message = (
            isinstance(text, Mapping) and _MESSAGE_FORM & text.keys() and ("content" in text or "text" not in text)
        )
        if not isinstance(text, str | Message) and not is_message:
            raise TypeError(f"number {at + 1} cannot be remembered: {one!r:.60}; expected {_FORMS}")
        stands_for_it = may_be_blank or form.get("metadata") or form.get("embedding") is not None
        if isinstance(text, str) and not text.strip() and not stands_for_it:
            raise ValueError(f"there is nothing to remember: text number {at + 1} is blank")
    if isinstance(content, Message) and not readable_text(content):
        raise ValueError("there is nothing to remember: the message has no content")
    return given


def _is_text_form(raw: Mapping[str, Any]) -> bool:
    return "text" in raw and raw.keys() <= {"text", *_OF_TEXTS, *TIME_KEYS}


def check_one_text(content: object, named: Mapping[str, object]) -> None:
    """Refuse what is said of one text where there is something else; raises `ValueError`."""
    given = [name for name, value in named.items() if value is not None]
    if given and not isinstance(content, str):
        raise ValueError(f"`{given[0]}` is of one text; of several each is a dict with `text` and `{given[0]}`")


NO_VERSION: Final = "none"
"""Value of `if_version` for a text whose id or key must be new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An item that may be stored already."""

    item: MemoryItem
    is_text: bool
    """Whether it is a text; otherwise it is a message."""
    is_turn: bool = False
    """Whether it is a message of a history that its place tells from the others, see `in_history`."""
    replaces: bool = False
    """Whether it takes the place of the item of its id, which the caller chose; its text is compared with none."""
    if_version: str | None = None
    """`version_hash` of the only item that it may replace, `NO_VERSION` where none may be stored; None for any."""


def drafts_of(contents: Sequence[Content], envelope: Envelope, *, history: bool = False) -> list[Draft]:
    """Return the drafts of texts and messages; a message without any content, such as a bare tool call, has none.

    Args:
        contents: the texts and messages.
        envelope: facts that they have in common.
        history: whether they are the messages of a conversation from its beginning, see `in_history`.

    Raises:
        MessageError: a mapping is not a message.
        TypeError: a history has texts.
    """
    read = [_read_message(one) if isinstance(one, Mapping) and not _is_text_form(one) else one for one in contents]
    kept = [one for one in read if not isinstance(one, Message) or readable_text(one)]
    if len(kept) < len(read):
        _LOG.info("%d of %d messages say nothing and are left out", len(read) - len(kept), len(read))
    if history:
        kept = [*in_history(kept)]
    drafts = []
    for one in kept:
        if isinstance(one, Message):
            item = _item_of_message(one, envelope)
            drafts.append(Draft(item=item, is_text=False, is_turn=history and is_turn(item)))
        else:
            drafts.append(_draft_of_text({"text": one} if isinstance(one, str) else one, envelope))
    return drafts


def in_history(messages: Iterable[Content]) -> Iterator[Message]:
    """Yield the messages of a history with ids; a message without its own is named by all that was said up to it.

    So a message is the same as another only where both conversations are the same up to it. Instructions, which
    programs change from turn to turn, are no part of that: they are named by their content and number.

    Raises:
        TypeError: one is a text.
    """
    said = hashlib.sha256()
    instructions: Counter[str] = Counter()
    for message in messages:
        if not isinstance(message, Message):
            raise TypeError("`history` is a conversation's messages, each with `role` and `content`; add texts alone")
        own, content = not isinstance(message.id, MadeId), message.content_hash()
        if message.role is Role.SYSTEM and not own:
            instructions[content] += 1
            yield replace(message, id=f"{_INSTRUCTIONS}{instructions[content]}:{content[:32]}")
            continue
        said.update(f"{message.id if own else content}\0".encode())
        yield message if own else replace(message, id=f"{_TURN}{said.hexdigest()[:32]}")


_TURN: Final = "history:"
"""Beginning of the id of a message that its place in a history names."""
_INSTRUCTIONS: Final = "instructions:"


def is_turn(item: MemoryItem) -> bool:
    """Whether an item is of a message that its place in a history names."""
    form = item.metadata.get(MESSAGE_KEY)
    return isinstance(form, Mapping) and str(form.get("id")).startswith(_TURN)


def _draft_of_text(form: Mapping[str, Any], envelope: Envelope) -> Draft:
    """Return the draft of a text with what is said of it alone: its id or key, and its vector."""
    text, item_id, key = form["text"], form.get("id"), form.get("key")
    item = with_vector(_item_of_text(text, _with_own(form, envelope)), form.get("embedding"))
    if item_id is not None and key is not None:
        raise ValueError("`id` and `key` both name the item of a text; give one of them")
    if key is not None:
        item = with_key(item, checked_name("key", key), item.scope)
    elif item_id is not None:
        item = replace(item, id=checked_name("id", item_id))
    is_named = item_id is not None or key is not None
    if (if_version := form.get("if_version")) is not None:
        checked_name("if_version", if_version)
        if not is_named:
            raise ValueError("`if_version` is of the text that an `id` or a `key` names; give one of them")
    # Texts that are blank say nothing that could be repeated.
    return Draft(item=item, is_text=True, replaces=is_named or not text.strip(), if_version=if_version)


def _with_own(form: Mapping[str, Any], envelope: Envelope) -> Envelope:
    """Return what holds for a dict with a text: what it says itself goes before what the call says."""
    given = {name: form[name] for name in ("metadata", "expires_at", "trust") if form.get(name) is not None}
    if (key := time_key(form)) is not None:
        if other := next((name for name in TIME_KEYS if name != key and form.get(name) is not None), None):
            raise ValueError(f"`{key}` and `{other}` both say when the text was said; put one of them into `metadata`")
        given["time"] = form[key]
    if not given:
        return envelope
    own = envelope_of(envelope.scope, envelope.stored_at, given)
    said = {name: value for name in ("event_time", "expires_at", "trust") if (value := getattr(own, name)) is not None}
    return replace(envelope, metadata={**envelope.metadata, **own.metadata}, **said)


def _item_of_message(message: Message, envelope: Envelope) -> MemoryItem:
    """Return the item of a message, whose id is the same each time in one scope and another one in another scope."""
    named = json.dumps([asdict(envelope.scope), message.id], sort_keys=True)
    item = message_to_item(
        message,
        item_id=hashlib.sha256(named.encode()).hexdigest()[:32],
        scope=envelope.scope,
        summary=shorten(readable_text(message), SUMMARY_LENGTH),
        stored_at=envelope.stored_at,
    )
    return replace(
        item,
        metadata={**checked_metadata(message.metadata), **envelope.metadata, **item.metadata},
        event_time=item.event_time if envelope.event_time is None else envelope.event_time,
        expires_at=envelope.expires_at,
        trust=item.trust if envelope.trust is None else envelope.trust,
        indexed_fields=envelope.fields,
    )


def with_vector(item: MemoryItem, given: object) -> MemoryItem:
    """Return an item with a vector of the caller's own, without one for None.

    Raises:
        ValueError: it is no vector.
    """
    others = {key: value for key, value in item.metadata.items() if key != VECTOR}
    if given is None:
        return replace(item, metadata=others, embedding=None)
    vector = checked_vector("embedding", given)
    length = float(np.linalg.norm(vector.astype(np.float64)))
    mark = f"{length.hex()} {hashlib.sha256(vector.tobytes()).hexdigest()[:16]}"
    return replace(item, metadata={**others, VECTOR: mark}, embedding=(vector / length).astype(np.float32))


def with_text(item: MemoryItem, text: str) -> MemoryItem:
    """Return the item with another text; its attachments stay.

    Raises:
        TypeError: it is not text.
        ValueError: it is blank.
    """
    if not isinstance(text, str):
        raise TypeError(f"`text` is text, not {text!r:.60}")
    listed(text)
    summary, whole = _summary_of(text)
    said, answered = item.input_snapshot, item.output_snapshot
    if item.is_message:
        said = replace(said, text=text) if said else None
        answered = replace(answered, text=text) if answered else None
    else:
        # The new text replaces both of their texts.
        said, answered = _only_blocks(said), _only_blocks(answered)
        said = replace(said or MemoryContentSnapshot(), text=whole) if whole else said
    metadata = {key: value for key, value in item.metadata.items() if key not in (REPEATS, VECTOR)}
    return replace(
        item,
        metadata=metadata,
        content_summary=summary,
        input_snapshot=said,
        output_snapshot=answered,
        content_hash="",
        embedding=None,
    )


def _only_blocks(snapshot: MemoryContentSnapshot | None) -> MemoryContentSnapshot | None:
    return replace(snapshot, text="") if snapshot and snapshot.blocks else None


def _summary_of(text: str) -> tuple[str, str]:
    """Return what is shown of a text, and the whole where that is more."""
    return (text, "") if len(text) <= SUMMARY_LENGTH else (shorten(text, SUMMARY_LENGTH), text)


def _item_of_text(text: str, envelope: Envelope) -> MemoryItem:
    summary, whole = _summary_of(text)
    scope = envelope.scope
    source = envelope.source or (
        Provenance(kind=SourceKind.NODE, name=scope.agent)
        if scope.agent
        else Provenance(kind=SourceKind.USER, name=scope.user or "")
    )
    if envelope.parents:
        source = replace(source, parents=envelope.parents)
    return MemoryItem(
        content_summary=summary,
        input_snapshot=MemoryContentSnapshot(text=whole) if whole else None,
        metadata=dict(envelope.metadata),
        created_at=envelope.stored_at,
        event_time=start_of(envelope.metadata) if envelope.event_time is None else envelope.event_time,
        expires_at=envelope.expires_at,
        scope=scope,
        provenance=source,
        trust=TRUST[source.kind] if envelope.trust is None else envelope.trust,
        indexed_fields=envelope.fields,
    )


def _read_message(raw: Mapping[str, Any]) -> Message:
    """Read a message as chat APIs have it: text in parts, a `name`, roles of other names."""
    form = {**raw, "role": _ROLES.get(raw.get("role"), raw.get("role"))}
    if "name" in form and not form.get("source"):
        form["source"] = form.pop("name")
    if isinstance(parts := form.get("content"), Sequence) and not isinstance(parts, str | bytes):
        form["content"] = "\n".join(part["text"] for part in parts if _is_text(part))
        # The block of a part that is not text has its type, and all else as it came.
        blocks = [
            {"type": part.get("type", "data"), "data": {key: value for key, value in part.items() if key != "type"}}
            if isinstance(part, Mapping)
            else part
            for part in parts
            if not _is_text(part)
        ]
        form["blocks"] = [*(form.get("blocks") or []), *blocks]
    if (key := time_key(form)) is not None:
        form[key] = parse_moment(form[key])
    return load_message(form)


def _is_text(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)
