"""From what was said to items, and back: the items keep everything, whatever becomes of a conversation's state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.messages import Message, Role, dump_message, load_message
from devmem.stores import Provenance, SourceKind, item_from, shorten, skipped, strip_frames
from devmem_stores.brain.keys import ChatKey
from devmem_stores.brain.state import Entry, spoken

MESSAGE: Final = "brain_message"
"""Key in an item's metadata: the message that it keeps, without what the snapshot holds, or `exchange`."""
KNOWLEDGE: Final = "brain_knowledge"
"""Key in an item's metadata: it was not said, but is known."""
_WHO: Final = re.compile(r"\A\((?:system|user|assistant|tool)\) ")


def item_of(message: Message, key: ChatKey, *, knowledge: bool, length: int, now: float) -> MemoryItem:
    """Make the item that keeps one message; `length` is that of what is shown of it, in characters."""
    snapshot = MemoryContentSnapshot.from_message(message)
    said = message.role is Role.USER or knowledge
    form = {name: value for name, value in dump_message(message).items() if name not in ("content", "blocks")}
    return MemoryItem(
        id=key.item_id(message.id),
        content_summary=shorten(message.text() if knowledge else spoken(message), length),
        metadata={**message.metadata, MESSAGE: form, **({KNOWLEDGE: True} if knowledge else {})},
        created_at=now,
        event_time=message.created_at,
        input_snapshot=snapshot if said else None,
        output_snapshot=None if said else snapshot,
        scope=key.scope(),
        provenance=Provenance(kind=SourceKind.USER if said else SourceKind.NODE, name=message.source),
    )


def item_of_exchange(payload: MemoryWritePayload, *, length: int, now: float) -> MemoryItem | WriteOutcome:
    """Make the item that keeps what a node was told and what it answered; the outcome says why there is none."""
    asked, answered = strip_frames(payload.inputs_text).strip(), payload.output_text().strip()
    if not asked and not answered:
        return skipped("neither the input nor the output has a text")
    # What the one side leaves, the other may take.
    for_asked = max(length // 2, length - len(answered) - 20) if answered else length
    lines = [f"user: {shorten(asked, for_asked - 6)}"] if asked else []
    speaker = f"{payload.source or 'assistant'}: "
    if answered:
        room = length - sum(len(line) + 1 for line in lines) - len(speaker)
        lines.append(speaker + shorten(answered, max(room, 20)))
    item = item_from(payload, "\n".join(lines), created_at=now)
    whole = payload.input_snapshot or (MemoryContentSnapshot(text=asked) if asked else None)
    return replace(item, input_snapshot=whole, metadata={**item.metadata, MESSAGE: "exchange"})


def was_said(item: MemoryItem) -> bool:
    """Say whether an item keeps something of a conversation, and did not come from an import."""
    return MESSAGE in item.metadata and not item.metadata.get(KNOWLEDGE)


def entries_of_exchange(item: MemoryItem, payload: MemoryWritePayload) -> list[Entry]:
    """Give the messages of an exchange: what the node was told, and its answer."""
    asked, answered = strip_frames(payload.inputs_text).strip(), payload.output_text().strip()
    return _entries(item, asked, answered)


def entries_of(item: MemoryItem) -> list[Entry]:
    """Give the messages that an item keeps."""
    form = item.metadata.get(MESSAGE)
    if not isinstance(form, Mapping):
        asked, answered = item.input_snapshot, item.output_snapshot
        return _entries(item, _plain(asked), answered.text.strip() if answered else "")
    snapshot = item.input_snapshot or item.output_snapshot or MemoryContentSnapshot(text=item.content_summary)
    message = load_message({**form, "content": snapshot.text})
    return [Entry(message=replace(message, blocks=tuple(snapshot.to_message_blocks())), item_id=item.id)]


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
