"""The JSON form of a message, which keeps its class; MetaGPT's form is read too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from devmem.errors import MessageError
from devmem.model.filters import time_of
from devmem.model.items import (
    CAUSE_KEY,
    MESSAGE_KEY,
    TRUST,
    MemoryContentSnapshot,
    MemoryItem,
    Provenance,
    Scope,
    SourceKind,
)
from devmem.model.message import (
    CLASS_OF_ROLE,
    ROUTE_ALL,
    AIMessage,
    KeepBlock,
    Message,
    MessageBlock,
    Role,
    UserMessage,
    dump_payload,
    keep_unknown,
    load_payload,
    role_of,
)
from devmem.model.times import TIME_KEYS, parse_time, time_key

_CLASSES: Final[Mapping[str, type[Message]]] = {
    "Message": Message,
    **{made.__name__: made for made in CLASS_OF_ROLE.values()},
}
_ROLES: Final = frozenset(role.value for role in Role)
_OTHER_ROLES: Final[Mapping[str, Role]] = {"human": Role.USER, "ai": Role.ASSISTANT}
_Blocks = tuple[Annotated[MessageBlock, KeepBlock], ...]


class _MessageForm(BaseModel, defer_build=True):
    type: str = Message.__name__
    id: str = Field(default="", coerce_numbers_to_str=True)
    role: str | None = None
    content: str = ""
    blocks: _Blocks = ()
    source: str = Field(default="", validation_alias=AliasChoices("source", "sent_from"))
    created_at: float | None = None
    metadata: dict[str, JsonValue] = {}
    cause_by: str = ""
    send_to: list[str] | str = ROUTE_ALL
    instruct_content: dict[str, JsonValue] | None = None


_KEYS: Final = (frozenset(_MessageForm.model_fields) | {"sent_from"}).difference(TIME_KEYS)


def _tolerated(raw: object) -> object:
    """Return a form with its time in seconds, nothing in the place of null, and unknown keys in the metadata.

    Raises:
        MessageError: its time is not a time.
    """
    if not isinstance(raw, Mapping):
        return raw
    given = {key: value for key, value in raw.items() if value is not None}
    key = time_key(given)
    try:
        time = {} if key is None else {"created_at": parse_time(given.pop(key))}
    except ValueError as error:
        raise MessageError(f"not a message: {key}: {error}") from error
    known: Any = keep_unknown(given, known=_KEYS, into="metadata")
    return {**known, **time}


@cache
def _blocks() -> TypeAdapter[_Blocks]:
    return TypeAdapter(_Blocks)


def dump_message(message: Message) -> dict[str, Any]:
    """Return the message's JSON form, which shares no object with it; empty values are left out.

    Raises:
        MessageError: its class is not one of devmem's, or metadata or payload have no JSON form.
    """
    made = type(message)
    if _CLASSES.get(made.__name__) is not made:
        raise MessageError(
            f"a {made.__name__} cannot be stored: the class would be lost. Put what it adds to a message into "
            "`metadata`, or into a model that is the message's `instruct_content`."
        )
    form = {
        "type": made.__name__ if made is not Message else None,
        "id": str(message.id),
        "role": message.role.value,
        "content": message.content,
        "blocks": _blocks().dump_python(message.blocks, mode="json", exclude_none=True) or None,
        "source": message.source or None,
        "created_at": message.created_at,
        "metadata": _plain(message) or None,
        "cause_by": message.cause_by or None,
        "send_to": sorted(message.send_to) if message.send_to != {ROUTE_ALL} else None,
        "instruct_content": dump_payload(message.instruct_content) if message.instruct_content is not None else None,
    }
    return {key: value for key, value in form.items() if value is not None}


def _plain(message: Message) -> dict[str, JsonValue]:
    try:
        copied: dict[str, JsonValue] = json.loads(json.dumps(message.metadata))
    except (TypeError, ValueError) as error:
        raise MessageError(f"the metadata of message {message.id!r} cannot be written as JSON: {error}") from error
    return copied


def load_message(raw: Mapping[str, Any]) -> Message:
    """Return the message of a JSON form, devmem's or MetaGPT's.

    A role that chat models do not know becomes the `source` of an assistant's message, and is kept in the metadata; a
    misspelt one is refused.

    Raises:
        MessageError: the mapping is not a message, or of a class that devmem does not have.
    """
    try:
        form = _MessageForm.model_validate(_tolerated(raw))
    except ValidationError as error:
        raise MessageError(f"not a message: {_described(error)}") from error
    made = _CLASSES.get(form.type)
    if made is None:
        raise MessageError(f"{form.type!r} is not a class of messages; there are {', '.join(_CLASSES)}")
    role, source, metadata = form.role, form.source, form.metadata
    if role is not None and role.lower() in _ROLES:
        role = role.lower()
    elif role is not None:
        if role.isalpha() and (meant := get_close_matches(role.lower(), _ROLES, n=1, cutoff=0.8)):
            raise MessageError(f"{role!r} is not a role; did you mean {meant[0]!r}? A speaker's name is the `source`.")
        known = _OTHER_ROLES.get(role.lower(), Role.ASSISTANT)
        source = source or (role if role.lower() not in _OTHER_ROLES else "")
        metadata, role = {"role": role, **metadata}, known
    return made(
        form.content,
        role=role_of(role) if role is not None else None,
        blocks=form.blocks,
        source=source,
        id=form.id,
        created_at=form.created_at,
        metadata=metadata,
        cause_by=form.cause_by,
        send_to=form.send_to,
        instruct_content=load_payload(form.instruct_content) if form.instruct_content is not None else None,
    )


def _described(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" if each["loc"] else each["msg"] for each in error.errors()
    )


def dump_message_json(message: Message) -> str:
    """Return the message's JSON form as text.

    Raises:
        MessageError: as `dump_message`.
    """
    return json_text(dump_message(message))


def load_message_json(raw: str | bytes) -> Message:
    """Return the message of a JSON text.

    Raises:
        MessageError: the text is not a message.
    """
    return load_message(read_json(raw))


def json_text(form: object) -> str:
    """Return a JSON form as text, readable in every script."""
    return json.dumps(form, ensure_ascii=False)


def read_json(raw: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Raises:
        MessageError: it is not JSON; the error names the position.
    """
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"not JSON: {error}") from error


def load_messages(raw: object) -> list[Message]:
    """Return the messages of a list of JSON forms, or of JSON texts, as MetaGPT's queue writes them.

    Raises:
        MessageError: it is not a list, or some entries are not messages; each of them is named by its position.
    """
    if not isinstance(raw, list):
        raise MessageError(f"not a list of messages but {type(raw).__name__}")
    loaded: list[Message] = []
    problems: list[str] = []
    for at, each in enumerate(raw):
        try:
            loaded.append(load_message_json(each) if isinstance(each, str) else load_message(each))
        except MessageError as error:
            problems.append(f"message {at}: {error}")
    if problems:
        raise MessageError(
            f"{len(problems)} of {len(raw)} messages cannot be read, and none was taken: " + "; ".join(problems[:10])
        )
    return loaded


SPEAKER_KEY: Final = "speaker"

_IN_SNAPSHOT: Final = frozenset({"content", "blocks"})
_KINDS: Final[Mapping[Role, SourceKind]] = {Role.USER: SourceKind.USER, Role.TOOL: SourceKind.TOOL}


def message_to_item(
    message: Message,
    *,
    item_id: str,
    scope: Scope,
    summary: str,
    stored_at: float,
    as_input: bool | None = None,
    timed: bool = True,
) -> MemoryItem:
    """Return the item that keeps a message whole; `dataclasses.replace` sets its expiry, hash or further metadata.

    Args:
        message: the message to keep.
        item_id: id of the item; a message may be in several memories, so that its own id does not name an item.
        scope: owner of the item.
        summary: text that an agent is shown, see `readable_text`.
        stored_at: seconds since the epoch.
        as_input: keep the content in the input's snapshot; by default that is where the user's messages are.
        timed: whether the time of the message is when it was said; False keeps no time, which is then unknown.

    Raises:
        MessageError: the message has no JSON form.
    """
    left_out = _IN_SNAPSHOT if timed else {*_IN_SNAPSHOT, "created_at"}
    form = {key: value for key, value in dump_message(message).items() if key not in left_out}
    snapshot = MemoryContentSnapshot.from_message(message)
    kind = _KINDS.get(message.role, SourceKind.NODE)
    told = message.role is Role.USER if as_input is None else as_input
    return MemoryItem(
        id=item_id,
        content_summary=summary,
        metadata={
            **({SPEAKER_KEY: message.source} if message.source else {}),
            **({CAUSE_KEY: message.cause_by} if message.cause_by else {}),
            MESSAGE_KEY: form,
        },
        created_at=stored_at,
        event_time=message.created_at if timed else None,
        input_snapshot=snapshot if told else None,
        output_snapshot=None if told else snapshot,
        scope=scope,
        provenance=Provenance(kind=kind, name=message.source),
        trust=TRUST[kind],
    )


def item_to_message(item: MemoryItem) -> Message:
    """Return the message that an item keeps.

    An item that keeps none becomes a message of its summary: an assistant's when a workflow's node wrote it, the user's
    otherwise. A message whose time is unknown was made when its item was stored.

    Raises:
        MessageError: what was stored is not a message; the error names the item.
    """
    form, snapshot = item.metadata.get(MESSAGE_KEY), item.output_snapshot or item.input_snapshot
    if not item.is_message or not isinstance(form, Mapping) or snapshot is None:
        return _message_of_summary(item)
    time = {} if time_key(form) else {"created_at": item.created_at}
    try:
        loaded = load_message({**form, **time, "content": snapshot.text})
    except MessageError as error:
        raise MessageError(f"item {item.id!r}: {error}") from error
    blocks = tuple(snapshot.to_message_blocks())
    return replace(loaded, blocks=blocks) if blocks else loaded


def readable_text(message: Message) -> str:
    """Return a message's text and blocks as text, or its payload as JSON when it has neither."""
    text = message.text().strip()
    if text or message.instruct_content is None:
        return text
    return json.dumps(dump_payload(message.instruct_content), ensure_ascii=False)


def _message_of_summary(item: MemoryItem) -> Message:
    speaker = item.metadata.get(SPEAKER_KEY)
    made = AIMessage if item.provenance.kind is SourceKind.NODE else UserMessage
    return made(
        item.content_summary,
        id=item.id,
        source=speaker if isinstance(speaker, str) else item.provenance.name,
        created_at=time_of(item),
    )
