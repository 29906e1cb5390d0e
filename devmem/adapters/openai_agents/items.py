"""From the SDK's input items to items of a memory, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast
from uuid import uuid4

from agents import TResponseInputItem

from devmem import MemoryItem, Scope
from devmem.messages import Message, Role, message_to_item
from devmem.stores import TRUST, SourceKind, shorten

InputItem: TypeAlias = TResponseInputItem

ITEM: Final = "openai_agents.item"
"""Metadata key of the input item as it came, as JSON text."""
_SUMMARY: Final = 1_000
"""Characters of a text that is shown whole in lists."""
_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
_KINDS: Final = {Role.USER: SourceKind.USER, Role.TOOL: SourceKind.TOOL}


def item_of(given: InputItem, scope: Scope, now: float) -> MemoryItem:
    """Return the item that keeps an input item; its text is searched, and it is a message to whoever reads it.

    Args:
        given: a message, a tool call, the output of one, or whatever else the SDK keeps.
        scope: whom the session belongs to.
        now: seconds since the epoch.

    Raises:
        TypeError: it has no JSON form.
    """
    form = json.dumps(given, ensure_ascii=False)
    raw = cast("Mapping[str, Any]", given)
    role = _ROLES.get(str(raw.get("role")), Role.TOOL)
    message = Message(text_of(given), role=role, source=_speaker(raw), created_at=now)
    summary = shorten(message.content, _SUMMARY)
    item = message_to_item(message, item_id=uuid4().hex, scope=scope, summary=summary, stored_at=now)
    trust = TRUST[_KINDS.get(role, SourceKind.NODE)]
    return replace(item, metadata={**item.metadata, ITEM: form}, trust=trust)


def given_of(item: MemoryItem) -> InputItem:
    """Return the input item that an item keeps."""
    return cast("InputItem", json.loads(str(item.metadata[ITEM])))


def text_of(given: InputItem) -> str:
    """Return the text of an input item; empty where it has none, as an image or encrypted reasoning."""
    raw = cast("Mapping[str, Any]", given)
    if raw.get("type") == "function_call":
        return f"{raw.get('name')}({raw.get('arguments')})"
    content = raw.get("output") if str(raw.get("type")).endswith("_output") else raw.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else raw.get("summary") or ()
    texts = (part.get("text") or part.get("refusal") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def _speaker(raw: Mapping[str, Any]) -> str:
    """Return the name of who said it, where the item has one; of a tool call that of the tool."""
    name = raw.get("name")
    return name if isinstance(name, str) else ""
