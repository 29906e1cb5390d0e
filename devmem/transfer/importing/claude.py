"""Claude's export, `conversations.json`: a list of conversations, each with its `chat_messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from devmem.model.items import MemoryItem
from devmem.transfer.importing.contents import text_of_content
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.turns import Turn, read_conversations, speaker_of


def is_claude(raw: object) -> bool:
    """Whether an element of a document, or the document, is a conversation of the export."""
    return isinstance(raw, Mapping) and isinstance(raw.get("chat_messages"), list)


def read_claude(conversations: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each message that has a text; attached files are named.

    Raises:
        DataFileError: something is not as Claude exports it.
    """
    expected = "a conversation with `chat_messages`"
    yield from read_conversations(conversations, origin, is_one=is_claude, expected=expected, turns=_turns)


def _turns(raw: Mapping[str, Any], origin: Origin) -> Iterator[Turn]:
    name = str(raw.get("uuid") or origin.entry)
    for at, message in enumerate(raw["chat_messages"]):
        here = replace(origin, entry=f"{origin.entry}.chat_messages[{at}]")
        if not isinstance(message, Mapping):
            raise here.error(f"expected a message, found {type(message).__name__}")
        speaker = speaker_of(message.get("sender"))
        if speaker is None:
            raise here.error(f"'sender': expected 'human' or 'assistant', found {message.get('sender')!r}")
        time = message.get("created_at")
        yield Turn(
            text=_text(message, here),
            speaker=speaker,
            origin=here,
            id=str(message["uuid"]) if message.get("uuid") else None,
            time=here.time("created_at", time) if time else None,
            conversation=name,
            metadata={"title": raw["name"]} if raw.get("name") else {},
        )


def _text(message: Mapping[str, Any], origin: Origin) -> str:
    said = text_of_content(message.get("content"), origin) or text_of_content(message.get("text"), origin)
    files = [one for key in ("attachments", "files") for one in message.get(key) or () if isinstance(one, Mapping)]
    named = [f"[file: {one['file_name']}]" for one in files if one.get("file_name")]
    return "\n".join([*([said] if said else []), *named])
