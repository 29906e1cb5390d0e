"""A message kept as an item of a collection, and read back with its class, payload and blocks.

The form of a kept message:

=========================  ====================================================================================
field of the item          content
=========================  ====================================================================================
`metadata["message"]`      the message's JSON form (`dump_message`) without `content` and `blocks`
`metadata["speaker"]`      `Message.source`, absent when nobody said it; the ranking matches names in a query with it
`metadata["cause_by"]`     `Message.cause_by`, absent when it is empty
a snapshot                 `content` as its text and the blocks: the input's snapshot for what was told to an agent, the
                           output's for what was said by one
`event_time`               `Message.created_at`
`trust`                    that of the kind of `provenance`, see `TRUST`
`provenance`               kind `user`, `tool` or `node` by the role, name `Message.source`
=========================  ====================================================================================

Id, scope and summary, as well as content hash, expiry and further metadata, are the store's own. Reading takes the
message from either snapshot and from the metadata keys `message` and `brain_message`, which older `brain` stores wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from devmem.errors import MessageError
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Provenance, Scope, SourceKind
from devmem.model.message import AIMessage, Message, UserMessage
from devmem.model.message_json import dump_message, load_message
from devmem.model.message_names import Role
from devmem.model.payloads import dump_payload
from devmem.model.trust import TRUST

MESSAGE_KEY: Final = "message"
"""Metadata key of a message's JSON form without its text and blocks, which the item's snapshot holds."""
SPEAKER_KEY: Final = "speaker"
CAUSE_KEY: Final = "cause_by"

_READ_KEYS: Final = (MESSAGE_KEY, "brain_message")
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
) -> MemoryItem:
    """Return the item that keeps a message whole; `dataclasses.replace` sets its expiry, hash or further metadata.

    Args:
        message: the message to keep.
        item_id: id of the item; a message may be in several memories, so that its own id does not name an item.
        scope: owner of the item.
        summary: text that an agent is shown, see `readable_text`.
        stored_at: seconds since the epoch.
        as_input: keep the content in the input's snapshot; by default that is where the user's messages are.

    Raises:
        MessageError: the message has no JSON form.
    """
    form = {key: value for key, value in dump_message(message).items() if key not in _IN_SNAPSHOT}
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
        event_time=message.created_at,
        input_snapshot=snapshot if told else None,
        output_snapshot=None if told else snapshot,
        scope=scope,
        provenance=Provenance(kind=kind, name=message.source),
        trust=TRUST[kind],
    )


def holds_message(item: MemoryItem) -> bool:
    """Whether an item keeps a message; an import or an exchange of a workflow's node does not."""
    return _form_of(item) is not None and _snapshot_of(item) is not None


def item_to_message(item: MemoryItem) -> Message:
    """Return the message that an item keeps.

    An item that keeps none becomes a message of its summary: an assistant's when a workflow's node wrote it, the user's
    otherwise.

    Raises:
        MessageError: what was stored is not a message; the error names the item.
    """
    form, snapshot = _form_of(item), _snapshot_of(item)
    if form is None or snapshot is None:
        return _message_of_summary(item)
    try:
        loaded = load_message({**form, "content": snapshot.text})
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


def _form_of(item: MemoryItem) -> Mapping[str, Any] | None:
    forms = (item.metadata.get(key) for key in _READ_KEYS)
    return next((form for form in forms if isinstance(form, Mapping)), None)


def _snapshot_of(item: MemoryItem) -> MemoryContentSnapshot | None:
    return item.output_snapshot or item.input_snapshot


def _message_of_summary(item: MemoryItem) -> Message:
    speaker = item.metadata.get(SPEAKER_KEY)
    made = AIMessage if item.provenance.kind is SourceKind.NODE else UserMessage
    return made(
        item.content_summary,
        id=item.id,
        source=speaker if isinstance(speaker, str) else item.provenance.name,
        created_at=item.created_at if item.event_time is None else item.event_time,
    )
