"""The chat model protocol: messages in, one answer out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from devmem.llm.quotation import Quotation
from devmem.messages import Message
from devmem.model.results import Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request to a chat model."""

    messages: tuple[Message, ...]
    recalled: tuple[Hit, ...] = ()
    """Hits that memory found for this request; their texts are in the messages already."""
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further parameters for the service, such as `{"temperature": 0.1}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """The answer of a chat model."""

    text: str
    quoted: bool = False
    """Whether the answer only quotes what was recalled, so that there is nothing in it to remember."""
    quotation: Quotation | None = None
    """The quoted passages and their question, where the model reports them; a node that comes next reads them."""


@runtime_checkable
class ChatModel(Protocol):
    """Turns messages into an answer; safe to call from several threads."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer the request.

        Raises:
            ChatModelError: there is no usable answer; the error says why.
        """
        ...
