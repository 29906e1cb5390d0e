"""A message as an item of a collection, and back: class, payload and blocks survive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.errors import MessageError
from devmem.messages import AIMessage, Message, Role, UserMessage, dump_message, load_message
from devmem.stores import Provenance, SnapshotBlock, SourceKind, shorten

MESSAGE: Final = "message"
"""Metadata key of the message's JSON form without its text and blocks, which the item's snapshot holds."""
_KINDS: Final[Mapping[Role, SourceKind]] = {Role.USER: SourceKind.USER, Role.TOOL: SourceKind.TOOL}


def item_of(message: Message, scope: Scope, *, stored_at: float, limit: int) -> MemoryItem:
    """Make the item of a message in one memory.

    Args:
        message: what to keep.
        scope: whose memory it is.
        stored_at: now, in seconds since the epoch.
        limit: characters of the summary.

    Raises:
        MessageError: the message has no JSON form.
    """
    form = dump_message(message)
    item_id = item_id_of(message.id, scope)
    return MemoryItem(
        id=item_id,
        content_summary=shorten(_spoken(message, form), limit),
        # The same message is the same item, whatever was changed in it since.
        content_hash=sha256(item_id.encode("utf-8", "surrogatepass")).hexdigest(),
        metadata={
            "role": message.role.value,
            **({"speaker": message.source} if message.source else {}),
            "cause_by": message.cause_by,
            MESSAGE: {key: value for key, value in form.items() if key not in ("content", "blocks")},
        },
        output_snapshot=MemoryContentSnapshot(
            text=message.content,
            blocks=tuple(SnapshotBlock(role=message.role.value, block=block) for block in message.blocks),
        ),
        created_at=stored_at,
        event_time=message.created_at,
        scope=scope,
        provenance=Provenance(kind=_KINDS.get(message.role, SourceKind.NODE), name=message.source),
    )


def item_id_of(message_id: str, scope: Scope) -> str:
    """Name a message in one memory: another role may have got the same message."""
    owner = json.dumps([scope.agent, scope.user, scope.session])
    return f"{message_id}@{sha256(owner.encode()).hexdigest()[:16]}"


def _spoken(message: Message, form: Mapping[str, Any]) -> str:
    text = message.text().strip()
    if not text and message.instruct_content is not None:
        text = json.dumps(form["instruct_content"], ensure_ascii=False)
    return f"{message.source}: {text}" if message.source and text else text


def message_of(item: MemoryItem) -> Message:
    """Give the message that an item keeps; an item that was no message, such as an import, becomes one of its text.

    Raises:
        MessageError: what was stored is no message any more; the error names the item.
    """
    kept: Any = item.metadata.get(MESSAGE)
    snapshot = item.output_snapshot
    if not isinstance(kept, Mapping) or snapshot is None:
        return _made_of(item)
    try:
        loaded = load_message({**kept, "content": snapshot.text})
    except MessageError as error:
        raise MessageError(f"item {item.id!r}: {error}") from error
    blocks = tuple(snapshot.to_message_blocks())
    return replace(loaded, blocks=blocks) if blocks else loaded


def _made_of(item: MemoryItem) -> Message:
    speaker = item.metadata.get("speaker")
    made = AIMessage if item.provenance.kind is SourceKind.NODE else UserMessage
    return made(
        item.content_summary,
        id=item.id,
        source=speaker if isinstance(speaker, str) else item.provenance.name,
        created_at=item.created_at if item.event_time is None else item.event_time,
    )
