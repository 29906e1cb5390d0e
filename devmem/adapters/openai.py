"""OpenAI's client with a memory: it recalls before each request, and remembers what was said after it.

client = wrap(OpenAI(), devmem.open("notes.db").scoped(user="ann"))
client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "When is the launch?"}])
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from devmem.adapters.hosts import require as _require
from devmem.adapters.hosts import writing
from devmem.errors import DevmemError
from devmem.memory import Memory

_require("openai", package="openai", extra="openai")

import openai  # noqa: E402 - first the error that names the extra

C = TypeVar("C", openai.OpenAI, openai.AsyncOpenAI)
Request = dict[str, Any]
"""Arguments of a request."""
_LOG: Final = logging.getLogger(__name__)
_FAILURES: Final = ("response.failed", "error")
"""Types of the events with which a streamed response ends too early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """Where a kind of requests has its messages, and its answers their text."""

    messages: str
    """Argument of the messages."""
    text_of: Callable[[Any], str]
    """Returns the text of an answer, or of a piece of one; empty where there is none."""
    is_last: Callable[[Any], bool]
    """Whether no more text comes after a piece of an answer."""


def wrap(client: C, memory: Memory, *, limit: int = 5, token_budget: int = 2000, remember: bool = True) -> C:
    """Return a copy of a client that has a memory; the client itself stays as it is.

    Before each `chat.completions.create` and `responses.create`, what answers the user's last message is put before
    it, quoted. After the request, the message and the answer's text are remembered; of a stream when its text is
    complete, whether or not the caller reads on. Of a request that fails, or a stream that is cut or left before that,
    nothing is. A memory that fails is logged and costs the request nothing. Other methods are the client's own, and
    copies that `with_options` makes have no memory.

    Args:
        client: `openai.OpenAI`, `openai.AsyncOpenAI`, or a client derived from one of them.
        memory: what is asked and written; `memory.scoped(user=...)` binds it to a user.
        limit: maximum number of memories that are recalled.
        token_budget: maximum size of what is recalled, in estimated tokens.
        remember: whether what is said is remembered.
    """
    wrapped = client.copy()
    memories = _Memories(memory, limit=limit, token_budget=token_budget, remember=remember)
    ways: tuple[tuple[Any, _Way], ...] = (
        (wrapped.chat.completions, _Way(messages="messages", text_of=_chat_text, is_last=_ends_chat)),
        (wrapped.responses, _Way(messages="input", text_of=_response_text, is_last=_ends_response)),
    )
    is_async = isinstance(client, openai.AsyncOpenAI)
    for resource, way in ways:
        make = _remembering_async if is_async else _remembering
        resource.create = make(resource.create, memories, way)
    return wrapped


class _Memories:
    """The memory and its limits; what fails in it is logged."""

    def __init__(self, memory: Memory, *, limit: int, token_budget: int, remember: bool) -> None:
        self._memory, self._limit, self._budget, self._remember = memory, limit, token_budget, remember

    def recalled(self, request: Request, way: _Way) -> Request:
        """Return the request with what is recalled for the user's last message."""
        at, message = _last_said(request.get(way.messages))
        if message is None:
            return request
        try:
            block = self._memory.context(_text(message), limit=self._limit, token_budget=self._budget)
        except DevmemError as error:
            _LOG.warning("nothing is recalled for a request: %s", error)
            return request
        if not block:
            return request
        given = request[way.messages]
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        return {**request, way.messages: [*messages[:at], {"role": "user", "content": block}, *messages[at:]]}

    def remember(self, request: Request, way: _Way, answer: str) -> None:
        """Remember the user's last message of a request and the answer, where that has a text."""
        _, message = _last_said(request.get(way.messages))
        if not self._remember or message is None or not answer:
            return
        asked = {"role": "user", "content": _text(message)}
        try:
            with writing("openai", self._memory):
                self._memory.add([asked, {"role": "assistant", "content": answer}])
        except DevmemError as error:
            _LOG.error("what was said is not remembered: %s", error)


def _remembering(create: Callable[..., Any], memories: _Memories, way: _Way) -> Callable[..., Any]:
    @functools.wraps(create)
    def remembering(**request: Any) -> Any:  # noqa: ANN401 - whatever the client takes and returns
        answer = create(**memories.recalled(request, way))
        if isinstance(answer, openai.Stream):
            return _observed(answer, _Listener(memories, request, way))
        memories.remember(request, way, way.text_of(answer))
        return answer

    return remembering


def _remembering_async(create: Callable[..., Any], memories: _Memories, way: _Way) -> Callable[..., Any]:
    @functools.wraps(create)
    async def remembering(**request: Any) -> Any:  # noqa: ANN401 - whatever the client takes and returns
        answer = await create(**await asyncio.to_thread(memories.recalled, request, way))
        if isinstance(answer, openai.AsyncStream):
            return _observed_async(answer, _Listener(memories, request, way))
        await asyncio.to_thread(memories.remember, request, way, way.text_of(answer))
        return answer

    return remembering


@dataclass(slots=True)
class _Listener:
    """Collects the text of a stream, and remembers it once."""

    memories: _Memories
    request: Request
    way: _Way
    texts: list[str] = field(default_factory=list)
    is_done: bool = False

    def hear(self, piece: object) -> bool:
        """Take a piece, and report whether the text is complete now."""
        self.texts.append(self.way.text_of(piece))
        # Half an answer is none.
        self.is_done = self.is_done or getattr(piece, "type", None) in _FAILURES
        return self.way.is_last(piece)

    def finish(self) -> None:
        if not self.is_done:
            self.is_done = True
            self.memories.remember(self.request, self.way, "".join(self.texts))


def _observed(stream: openai.Stream[Any], listener: _Listener) -> openai.Stream[Any]:
    """Have a listener hear the pieces of a stream, which stays the same object."""
    pieces = stream._iterator  # noqa: SLF001 - what the stream's own `__iter__` and `__next__` read from

    def heard() -> Iterator[Any]:
        for piece in pieces:
            if listener.hear(piece):
                listener.finish()
            yield piece
        # For services that do not mark the last piece.
        listener.finish()

    stream._iterator = heard()  # noqa: SLF001 - see above
    return stream


def _observed_async(stream: openai.AsyncStream[Any], listener: _Listener) -> openai.AsyncStream[Any]:
    """Have a listener hear the pieces of a stream, which stays the same object."""
    pieces = stream._iterator  # noqa: SLF001 - what the stream's own `__aiter__` and `__anext__` read from

    async def heard() -> AsyncIterator[Any]:
        async for piece in pieces:
            if listener.hear(piece):
                await asyncio.to_thread(listener.finish)
            yield piece
        # For services that do not mark the last piece.
        await asyncio.to_thread(listener.finish)

    stream._iterator = heard()  # noqa: SLF001 - see above
    return stream


def _last_said(messages: object) -> tuple[int, Mapping[str, Any] | None]:
    """Return the place of the user's last message with a text, and the message; (0, None) without one."""
    if isinstance(messages, str):
        return 0, {"role": "user", "content": messages} if messages.strip() else None
    if not isinstance(messages, Sequence):
        return 0, None
    for at in reversed(range(len(messages))):
        message = messages[at]
        if isinstance(message, Mapping) and message.get("role") == "user" and _text(message).strip():
            return at, message
    return 0, None


def _text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, of whose parts only texts count."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def _chat_text(answer: Any) -> str:  # noqa: ANN401 - a completion, a chunk of one, or whatever a service sent
    choice = _first_choice(answer)
    said = getattr(choice, "message", None) or getattr(choice, "delta", None)
    text = getattr(said, "content", None)
    return text if isinstance(text, str) else ""


def _ends_chat(chunk: object) -> bool:
    return getattr(_first_choice(chunk), "finish_reason", None) is not None


def _first_choice(answer: object) -> object:
    """Return the first choice; None without one, or where a service sent something else."""
    choices = getattr(answer, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _response_text(answer: Any) -> str:  # noqa: ANN401 - a response, an event of one, or whatever a service sent
    if getattr(answer, "type", None) == "response.output_text.delta":
        text = getattr(answer, "delta", None)
    else:
        try:
            text = getattr(answer, "output_text", None)
        except TypeError:
            # The property goes through an output that is none.
            return ""
    return text if isinstance(text, str) else ""


def _ends_response(event: object) -> bool:
    return getattr(event, "type", None) in ("response.completed", "response.incomplete")
