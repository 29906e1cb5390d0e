"""Messages of a conversation as items, and back: the items keep everything, whatever becomes of the state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Turn, WriteOutcome
from devmem.messages import Message, Role, holds_message, item_to_message, message_to_item
from devmem.stores import TRUST, Provenance, SourceKind, item_from, skipped, turns_of
from devmem.text import indented, one_line, shorten, strip_frames
from devmem_stores.brain.config import ChatKey
from devmem_stores.brain.state import HEARD, Entry, spoken

KIND_KEY: Final = "brain_message"
"""Metadata key of what a conversation wrote: `message` or `exchange`; devmem 0.1.0 kept the message itself under it."""
KNOWLEDGE_KEY: Final = "brain_knowledge"
"""Metadata key of an item that keeps knowledge, which nobody said."""
TURNS_KEY: Final = "brain_turns"
"""Metadata key of who said what to a node, where it was not the user alone."""
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
    kind = SourceKind.USER if told else item.provenance.kind
    return replace(
        item,
        metadata={**message.metadata, **item.metadata, **marks},
        provenance=Provenance(kind=kind, name=message.source),
        trust=TRUST[kind],
    )


def item_of_exchange(payload: MemoryWritePayload, *, length: int, now: float) -> MemoryItem | WriteOutcome:
    """Return the item that keeps the input of a node and its answer, or the outcome that explains why there is none."""
    turns, answered = turns_of(payload), payload.output_text().strip()
    if not turns and not answered:
        return skipped("neither the input nor the output has a text")
    summary = _exchange(turns, one_line(payload.source) or "assistant", answered, length)
    item = item_from(payload, summary, created_at=now)
    said = strip_frames(payload.inputs_text).strip()
    whole = payload.input_snapshot or (MemoryContentSnapshot(text=said) if said else None)
    marks: dict[str, JsonValue] = {KIND_KEY: "exchange", **_stored(turns)}
    return replace(item, input_snapshot=whole, metadata={**item.metadata, **marks})


def _exchange(turns: Sequence[Turn], node: str, answered: str, length: int) -> str:
    """Return what was said with its speakers, a paragraph each, of at most about `length` characters."""
    # Only the speakers stand at the left edge, so that no text forges a turn.
    answered = indented(answered)
    # What the one side leaves, the other may take.
    for_asked = max(length // 2, length - len(answered) - 20) if answered else length
    lines: list[str] = []
    for turn in turns:
        who = f"{_speaker(turn)}: "
        lines.append(who + shorten(indented(turn.text.strip()), max(for_asked // len(turns) - len(who), 20)))
    if answered:
        room = length - sum(len(line) + 1 for line in lines) - len(node) - 2
        lines.append(f"{node}: {shorten(answered, max(room, 20))}")
    return "\n".join(lines)


def _speaker(turn: Turn) -> str:
    return turn.role if turn.role == Role.USER else one_line(turn.speaker) or turn.role


def _stored(turns: Sequence[Turn]) -> dict[str, JsonValue]:
    """Return the metadata that say who said what; a single turn of the user needs none."""
    if len(turns) == 1 and turns[0].role == Role.USER:
        return {}
    # The text of a single turn is that of the input.
    texts = [turn.text.strip() if len(turns) > 1 else None for turn in turns]
    return {
        TURNS_KEY: [
            {"speaker": turn.speaker, "role": turn.role, **({} if text is None else {"text": text})}
            for turn, text in zip(turns, texts, strict=True)
        ]
    }


def was_said(item: MemoryItem) -> bool:
    """Whether an item keeps what somebody said in a conversation; imports and knowledge do not."""
    return belongs_to_conversation(item) and not item.metadata.get(KNOWLEDGE_KEY)


def belongs_to_conversation(item: MemoryItem) -> bool:
    """Whether an item was written by a conversation; an import was not."""
    return KIND_KEY in item.metadata


def entry_of(message: Message, item: MemoryItem) -> Entry:
    """Return a message of a conversation, which an item keeps."""
    return Entry(message=message, item_id=item.id, trust=item.trust, expires_at=item.expires_at)


def entries_of_exchange(item: MemoryItem, payload: MemoryWritePayload) -> list[Entry]:
    """Return the messages of an exchange: the input of the node, and its answer."""
    return _entries(item, turns_of(payload), payload.output_text().strip())


def entries_of(item: MemoryItem) -> list[Entry]:
    """Return the messages that an item keeps."""
    if holds_message(item):
        return [entry_of(item_to_message(item), item)]
    answered = item.output_snapshot
    return _entries(item, _turns_in(item), answered.text.strip() if answered else "")


def _entries(item: MemoryItem, turns: Sequence[Turn], answered: str) -> list[Entry]:
    when = item.created_at if item.event_time is None else item.event_time

    def entry(role: Role, text: str, source: str, name: str) -> Entry:
        message = Message(role=role, content=text, source=source, id=f"{item.id}:{name}", created_at=when)
        return entry_of(message, item)

    names = [Role.USER.value] if len(turns) == 1 else [f"{number}" for number in range(len(turns))]
    heard = [
        entry(Role.USER, turn.text.strip(), "", name)
        if turn.role == Role.USER
        else entry(_role_of(turn), turn.text.strip(), turn.speaker, f"{name}{HEARD}")
        for turn, name in zip(turns, names, strict=True)
    ]
    said = [entry(Role.ASSISTANT, answered, item.provenance.name, Role.ASSISTANT.value)] if answered else []
    return [*heard, *said]


def _role_of(turn: Turn) -> Role:
    # A frame in a text may name any role.
    return Role(turn.role) if turn.role in set(Role) else Role.ASSISTANT


def _turns_in(item: MemoryItem) -> list[Turn]:
    """Return the turns of a stored exchange; before devmem knew the speakers, an input was the user's."""
    text = _plain(item.input_snapshot)
    stored = item.metadata.get(TURNS_KEY)
    if not isinstance(stored, list):
        return [Turn(text=text)] if text else []
    turns = (turn for turn in stored if isinstance(turn, Mapping))
    return [
        Turn(text=str(turn.get("text", text)), speaker=str(turn.get("speaker", "")), role=str(turn.get("role", "user")))
        for turn in turns
    ]


def _plain(snapshot: MemoryContentSnapshot | None) -> str:
    return _WHO.sub("", strip_frames(snapshot.text).strip()) if snapshot else ""
