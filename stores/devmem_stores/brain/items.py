"""Messages of a conversation as items, and back: the items keep everything, whatever becomes of the state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Turn, WriteOutcome
from devmem.messages import Message, Role, item_to_message, message_to_item
from devmem.stores import TRUST, Provenance, SourceKind, item_from, skipped, turns_of
from devmem.text import indented, one_line, shorten, strip_frames
from devmem_stores.brain.config import ChatKey
from devmem_stores.brain.state import HEARD, StoredMessage, spoken

_KIND_KEY: Final = "brain_message"
"""Metadata key of what a conversation wrote: `message`, `knowledge` or `exchange`."""
_TURNS_KEY: Final = "brain_turns"
"""Metadata key of who said what to a node, where it was not the user alone."""
_ROLES: Final = frozenset(role.value for role in Role)
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
    kind = SourceKind.USER if told else item.provenance.kind
    return replace(
        item,
        metadata={**message.metadata, **item.metadata, _KIND_KEY: "knowledge" if knowledge else "message"},
        provenance=Provenance(kind=kind, name=message.source),
        trust=TRUST[kind],
    )


def item_of_exchange(payload: MemoryWritePayload, *, length: int, now: float) -> MemoryItem | WriteOutcome:
    """Return the item that keeps the input of a node and its answer, or the outcome that explains why there is none."""
    turns, answered = turns_of(payload), payload.output_text().strip()
    if not turns and not answered:
        return skipped("neither the input nor the output has a text")
    item = item_from(
        payload, _exchange(turns, one_line(payload.source) or "assistant", answered, length), created_at=now
    )
    said = strip_frames(payload.inputs_text).strip()
    whole = payload.input_snapshot or (MemoryContentSnapshot(text=said) if said else None)
    metadata: dict[str, JsonValue] = {**item.metadata, _KIND_KEY: "exchange"}
    if [(turn.role, turn.text.strip()) for turn in turns] != [(Role.USER.value, _plain(whole))]:
        metadata[_TURNS_KEY] = [
            {"speaker": turn.speaker, "role": turn.role, "text": turn.text.strip()} for turn in turns
        ]
    return replace(item, input_snapshot=whole, metadata=metadata)


def _exchange(turns: Sequence[Turn], node: str, answered: str, length: int) -> str:
    """Return what was said with its speakers, a paragraph each, of at most about `length` characters."""
    # Only the speakers stand at the left edge, so that no text forges a turn.
    answered = indented(answered)
    # What the one side leaves, the other may take.
    for_asked = max(length // 2, length - len(answered) - 20) if answered else length
    lines: list[str] = []
    for turn in turns:
        who = f"{turn.role if turn.role == Role.USER else one_line(turn.speaker) or turn.role}: "
        lines.append(who + shorten(indented(turn.text.strip()), max(for_asked // len(turns) - len(who), 20)))
    if answered:
        room = length - sum(len(line) + 1 for line in lines) - len(node) - 2
        lines.append(f"{node}: {shorten(answered, max(room, 20))}")
    return "\n".join(lines)


def belongs_to_conversation(item: MemoryItem) -> bool:
    """Whether an item was written by a conversation; an import was not."""
    return _KIND_KEY in item.metadata


def is_knowledge(item: MemoryItem) -> bool:
    """Whether an item keeps knowledge, which nobody said."""
    return item.metadata.get(_KIND_KEY) == "knowledge"


def entry_of(message: Message, item: MemoryItem) -> StoredMessage:
    """Return a message of a conversation, which an item keeps."""
    return StoredMessage(message=message, item_id=item.id, trust=item.trust, expires_at=item.expires_at)


def entries_of(item: MemoryItem) -> list[StoredMessage]:
    """Return the messages that an item keeps: one, or the input of a node and its answer."""
    if item.is_message:
        return [entry_of(item_to_message(item), item)]
    when = item.created_at if item.event_time is None else item.event_time

    def entry(role: Role, text: str, source: str, name: str) -> StoredMessage:
        message = Message(role=role, content=text, source=source, id=f"{item.id}:{name}", created_at=when)
        return entry_of(message, item)

    entries: list[StoredMessage] = []
    stored, text = item.metadata.get(_TURNS_KEY), _plain(item.input_snapshot)
    turns = [Turn(text=text)] if text else []
    if isinstance(stored, list):
        told = [turn for turn in stored if isinstance(turn, Mapping)]
        turns = [Turn(text=str(turn["text"]), speaker=str(turn["speaker"]), role=str(turn["role"])) for turn in told]
    for number, turn in enumerate(turns):
        name = str(number) if len(turns) > 1 else Role.USER.value
        if turn.role == Role.USER:
            entries.append(entry(Role.USER, turn.text, "", name))
        else:
            # A frame in a text may name any role.
            role = Role(turn.role) if turn.role in _ROLES else Role.ASSISTANT
            entries.append(entry(role, turn.text, turn.speaker, f"{name}{HEARD}"))
    if item.output_snapshot and (answered := item.output_snapshot.text.strip()):
        entries.append(entry(Role.ASSISTANT, answered, item.provenance.name, Role.ASSISTANT.value))
    return entries


def _plain(snapshot: MemoryContentSnapshot | None) -> str:
    return _WHO.sub("", strip_frames(snapshot.text).strip()) if snapshot else ""
