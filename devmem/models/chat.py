"""The chat model protocol: messages in, one answer out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, runtime_checkable

from pydantic import JsonValue

from devmem.errors import ChatModelError
from devmem.forks import follow_forks
from devmem.model.message import Message, Role
from devmem.model.results import Hit

TIMEOUT: Final = 120.0
"""Seconds for one request of a service."""
MAX_RETRIES: Final = 4
_KEY: Final = "quoted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """Remembered passages that answer a question."""

    question: str = ""
    """Question that the passages were recalled for; blank when it is not known."""
    passages: tuple[str, ...] = ()

    @classmethod
    def in_message(cls, message: Message) -> Self | None:
        """Return the quotation that a message is; None for a message that says something of its own."""
        found = message.metadata.get(_KEY)
        if not found:
            return None
        fields = found if isinstance(found, Mapping) else {}
        passages = fields.get("passages")
        return cls(
            question=str(fields.get("question") or ""),
            passages=tuple(map(str, passages)) if isinstance(passages, list | tuple) else (),
        )

    @classmethod
    def joined(cls, quotations: Iterable[Self]) -> Self:
        """Join quotations: the last question that is known, every passage once."""
        found = list(quotations)
        question = next((each.question for each in reversed(found) if each.question), "")
        return cls(question=question, passages=tuple(dict.fromkeys(text for each in found for text in each.passages)))

    def metadata(self) -> dict[str, JsonValue]:
        """Return the metadata of a message that is this quotation."""
        return {_KEY: {"question": self.question, "passages": list(self.passages)}}


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
    quotation: Quotation | None = None
    """The recalled passages that the answer only quotes, and their question; a node that comes next reads them."""


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


def json_in(answer: str, object_pairs_hook: Callable[[list[tuple[str, Any]]], object] | None = None) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON object in an answer, whatever a model wrote around it; None where there is none."""
    try:
        return json.loads(answer[answer.find("{") : answer.rfind("}") + 1], object_pairs_hook=object_pairs_hook)
    except (ValueError, RecursionError):
        return None


class TextModel:
    """Asks a chat model about texts; safe to use from several threads."""

    def __init__(self, open_model: Callable[[], ChatModel], params: Mapping[str, JsonValue]) -> None:
        self._open, self._params = open_model, params
        self._opened: ChatModel | None = None
        self._lock = threading.Lock()
        follow_forks(self)

    def open(self) -> ChatModel:
        """Return the model, opened once.

        Raises:
            ChatModelError: it cannot be opened.
            MissingExtraError: the model's package is not installed.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def reply(self, instructions: Sequence[str], text: str) -> ChatReply:
        """Return the model's reply to instructions about a text; raises what `open` and the model raise."""
        system = (Message(role=Role.SYSTEM, content=instruction) for instruction in instructions)
        messages = (*system, Message(role=Role.USER, content=text))
        return self.open().complete(ChatRequest(messages=messages, params=self._params))

    def ask(self, instructions: Sequence[str], text: str) -> str:
        """Return the text of the model's reply to instructions about a text.

        Raises:
            ChatModelError: there is no usable answer.
            MissingExtraError: the model's package is not installed.
        """
        answer = self.reply(instructions, text).text.strip()
        if not answer:
            raise ChatModelError("the language model answered without a text")
        return answer
