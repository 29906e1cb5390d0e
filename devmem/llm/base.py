"""The chat model protocol: messages in, one answer out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
class Usage:
    """Tokens that requests cost, as the service counted them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool that a model wants to be called; whoever asked the model calls it."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it; it may be damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """The answer of a chat model."""

    text: str
    """Text of the answer; empty where the model only calls tools."""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    """Cost of the answer; None where the service does not say, or there is none."""
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


@runtime_checkable
class StreamingChatModel(ChatModel, Protocol):
    """A chat model that hands out its answer while it comes."""

    def stream(self, request: ChatRequest, on_text: Callable[[str], None]) -> ChatReply:
        """Answer the request, and call `on_text` with each piece of the answer's text; return the whole.

        Raises:
            ChatModelError: there is no usable answer, or it ended too early; the error says why.
        """
        ...
