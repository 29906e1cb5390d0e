"""What a chat model is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from devmem.messages import Message
from devmem.model.results import Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What a chat model is asked."""

    messages: tuple[Message, ...]
    recalled: tuple[Hit, ...] = ()
    """What memory found for this request; its text is in the messages already."""
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    """What else the service is told, as in `{"temperature": 0.1}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """What a chat model answered."""

    text: str
    quoted: bool = False
    """The answer only quotes what was recalled, so there is nothing in it to remember."""


@runtime_checkable
class ChatModel(Protocol):
    """Turns messages into an answer; safe to call from several threads."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer the request.

        Raises:
            ChatModelError: there is no usable answer; the error says why.
        """
        ...
