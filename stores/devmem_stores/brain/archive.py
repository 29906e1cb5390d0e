"""Messages of a conversation as items, and back: the items keep everything, whatever becomes of the state."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.messages import Message, Role, holds_message, item_to_message, message_to_item
from devmem.stores import Provenance, SourceKind, indented, item_from, one_line, shorten, skipped, strip_frames
from devmem_stores.brain.keys import ChatKey
from devmem_stores.brain.state import Entry, spoken

KIND_KEY: Final = "brain_message"
"""Metadata key of what a conversation wrote: `message` or `exchange`; devmem 0.1.0 kept the message itself under it."""
KNOWLEDGE_KEY: Final = "brain_knowledge"
"""Metadata key of an item that keeps knowledge, which nobody said."""
_WHO: Final = re.compile(r"\A\((?:system|user|assistant|tool)\) ")


def item_of(message: Message, key: ChatKey, *, knowledge: bool, length: int, now: float) -> MemoryItem:
    """Return the item that keeps one message; `length` is the maximum number of characters of its summary."""
    told = message.role is Role.USER or knowledge
    item = message_to_item(
        message,
        item_id=key.item_id(message.id),
        scope=key.scope(),
        summary=shorten(message.text() if knowledge else spoken(message), length),
        stored_at=now,
        as_input=told,
    )
    marks: dict[str, JsonValue] = {KIND_KEY: "message", **({KNOWLEDGE_KEY: True} if knowledge else {})}
    provenance = Provenance(kind=SourceKind.USER if told else SourceKind.NODE, name=message.source)
    return replace(item, metadata={**message.metadata, **item.metadata, **marks}, provenance=provenance)


def item_of_exchange(payload: MemoryWritePayload, *, length: int, now: float) -> MemoryItem | WriteOutcome:
    """Return the item that keeps the input of a node and its answer, or the outcome that explains why there is none."""
    asked, answered = strip_frames(payload.inputs_text).strip(), payload.output_text().strip()
    if not asked and not answered:
        return skipped("neither the input nor the output has a text")
    # Only the speakers stand at the left edge, so that no text forges a turn.
    asked, answered = indented(asked), indented(answered)
    # What the one side leaves, the other may take.
    for_asked = max(length // 2, length - len(answered) - 20) if answered else length
    lines = [f"user: {shorten(asked, for_asked - 6)}"] if asked else []
    speaker = f"{one_line(payload.source) or 'assistant'}: "
    if answered:
        room = length - sum(len(line) + 1 for line in lines) - len(speaker)
        lines.append(speaker + shorten(answered, max(room, 20)))
    item = item_from(payload, "\n".join(lines), created_at=now)
    said = strip_frames(payload.inputs_text).strip()
    whole = payload.input_snapshot or (MemoryContentSnapshot(text=said) if said else None)
    return replace(item, input_snapshot=whole, metadata={**item.metadata, KIND_KEY: "exchange"})


def was_said(item: MemoryItem) -> bool:
    """Whether an item keeps what somebody said in a conversation; imports and knowledge do not."""
    return belongs_to_conversation(item) and not item.metadata.get(KNOWLEDGE_KEY)


def belongs_to_conversation(item: MemoryItem) -> bool:
    """Whether an item was written by a conversation; an import was not."""
    return KIND_KEY in item.metadata


def entries_of_exchange(item: MemoryItem, payload: MemoryWritePayload) -> list[Entry]:
    """Return the messages of an exchange: the input of the node, and its answer."""
    asked, answered = strip_frames(payload.inputs_text).strip(), payload.output_text().strip()
    return _entries(item, asked, answered)


def entries_of(item: MemoryItem) -> list[Entry]:
    """Return the messages that an item keeps."""
    if holds_message(item):
        return [Entry(message=item_to_message(item), item_id=item.id)]
    asked, answered = item.input_snapshot, item.output_snapshot
    return _entries(item, _plain(asked), answered.text.strip() if answered else "")


def _entries(item: MemoryItem, asked: str, answered: str) -> list[Entry]:
    when = item.created_at if item.event_time is None else item.event_time
    said = ((Role.USER, asked, ""), (Role.ASSISTANT, answered, item.provenance.name))
    return [
        Entry(
            message=Message(role=role, content=text, source=source, id=f"{item.id}:{role.value}", created_at=when),
            item_id=item.id,
        )
        for role, text, source in said
        if text
    ]


def _plain(snapshot: MemoryContentSnapshot | None) -> str:
    return _WHO.sub("", strip_frames(snapshot.text).strip()) if snapshot else ""
