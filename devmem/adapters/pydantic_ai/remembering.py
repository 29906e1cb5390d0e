"""Remembering what was said in a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextContent,
    UserPromptPart,
)

from devmem import Memory
from devmem.adapters.hosts import writing
from devmem.messages import Message, Role

MARK: Final = {"origin": "devmem"}
"""Metadata of a prompt that was recalled."""


def remember(memory: Memory, messages: Sequence[ModelMessage]) -> list[str]:
    """Remember what the user and the agent said, and return the ids of the items.

    Pass `result.new_messages()`, or the whole history: a message that is remembered already is kept once. Prompts of
    the system, calls of tools and what was recalled are left out.

    Raises:
        NotStoredError: the store does not take it.
        CollectionError: it cannot be written.
    """
    with writing("pydantic_ai", memory):
        return memory.add(list(_said(messages)))


def text_of_prompt(request: ModelRequest) -> str:
    """Return what the user said in a request, without what was recalled."""
    prompts = [part for part in request.parts if isinstance(part, UserPromptPart) and not is_recalled(part)]
    return "\n".join(text for part in prompts for text in _texts(part))


def is_recalled(part: ModelRequestPart) -> bool:
    """Whether a part was put into the history by a memory."""
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return False
    return any(isinstance(one, TextContent) and one.metadata == MARK for one in part.content)


def _said(messages: Sequence[ModelMessage]) -> Iterator[Message]:
    for message in messages:
        if isinstance(message, ModelRequest):
            role, text = Role.USER, text_of_prompt(message)
        else:
            role, text = Role.ASSISTANT, (message.text or "") if isinstance(message, ModelResponse) else ""
        if text.strip():
            time = message.timestamp.timestamp() if message.timestamp else None
            named = f"{message.run_id}\0{time}\0{role.value}\0{text}"
            yield Message(text, role=role, id=hashlib.sha256(named.encode()).hexdigest()[:32], created_at=time)


def _texts(part: UserPromptPart) -> Iterator[str]:
    for one in [part.content] if isinstance(part.content, str) else part.content:
        if isinstance(one, str | TextContent):
            yield one if isinstance(one, str) else one.content
