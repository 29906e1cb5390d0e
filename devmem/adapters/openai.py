"""OpenAI's client with a memory: it recalls before each request, and remembers what was said after it.

client = wrap(OpenAI(), devmem.open("notes.db").scoped(user="ann"))
client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "When is the launch?"}])
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from devmem import Memory
from devmem.adapters.hosts import last_said, recalled
from devmem.adapters.hosts import remember as remember_messages
from devmem.adapters.hosts import require as _require
from devmem.messages import Message, Role

_require("openai", package="openai", extra="openai")

import openai

# The classes of raw responses have no public names.
from openai._legacy_response import LegacyAPIResponse
from openai._response import APIResponse, AsyncAPIResponse

C = TypeVar("C", openai.OpenAI, openai.AsyncOpenAI)
Request = dict[str, Any]
"""Arguments of a request."""
_LOG: Final = logging.getLogger(__name__)
_FAILURES: Final = ("response.failed", "error")
"""Types of the events with which a streamed response ends too early."""
_EXCHANGES: Final = 1000
"""Number of exchanges that the next request of the same turn is known by."""
_REQUESTING: Final[ContextVar[bool]] = ContextVar("devmem_openai_requesting", default=False)
"""Whether a method with a memory is at work, which may call another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """Where a kind of requests has its messages, and its answers their text."""

    messages: str
    """Argument of the messages."""
    text_of: Callable[[Any], str]
    """Returns the text of an answer, or of a piece of one; empty where there is none."""
    is_last: Callable[[Any], bool]
    """Whether no more text comes after a piece of an answer."""


def wrap(
    client: C,
    memory: Memory,
    *,
    limit: int = 5,
    token_budget: int = 2000,
    remember: bool = True,
    relevance: bool = True,
) -> C:
    """Return a copy of a client that has a memory; the client itself stays unchanged.

    Before each `create`, `parse` and `stream` of `chat.completions` and `responses`, what answers the user's last
    message is put before it, quoted. After the request, what the user said since the last answer in its messages, and
    the answer's text, are remembered as new messages; of a stream when its text is complete, whether or not the caller
    reads on. Earlier messages were remembered with their own requests. Of a request that fails, or a stream that is cut
    or left before that, nothing is. A memory that fails is logged and costs the request nothing. Copies that
    `with_options` makes have the same memory. Raw responses are remembered too, those of `with_streaming_response` when
    the caller has them parsed. Other methods are the client's own.

    Args:
        client: `openai.OpenAI`, `openai.AsyncOpenAI`, or a client derived from one of them.
        memory: what is asked and written; `memory.scoped(user=...)` binds it to a user.
        limit: maximum number of memories that are recalled.
        token_budget: maximum size of the recalled block, in estimated tokens.
        remember: whether what is said is remembered.
        relevance: whether nothing is recalled for a message that nothing stored has to do with, such as "ok".
    """
    recall = partial(recalled, "openai", memory, limit=limit, token_budget=token_budget, relevance=relevance)
    return _with_memory(client.copy(), _Memories(memory, recall, remember=remember))


def _with_memory(client: C, memories: _Memories) -> C:
    """Return a client whose requests have a memory, as have those of the copies that are made of it."""
    is_async = isinstance(client, openai.AsyncOpenAI)
    make = _remembering_async if is_async else _remembering
    for path, way in _RESOURCES.items():
        # `stream` sends its request by `create`; older versions of the client have fewer resources and methods.
        resource: object = client
        for name in path.split("."):
            resource = getattr(resource, name, None)
        for name in ("create", "parse"):
            if (method := getattr(resource, name, None)) is not None:
                setattr(resource, name, make(method, memories, way))
    copy: Any = client.copy

    @functools.wraps(copy)
    def copied(**options: Any) -> C:
        made: C = copy(**options)
        return _with_memory(made, memories)

    client.copy = client.with_options = copied  # type: ignore[method-assign]
    return client


class _Memories:
    """The memory, and how it recalls."""

    def __init__(self, memory: Memory, recall: Callable[..., str], *, remember: bool) -> None:
        self._memory, self._recall, self._remember = memory, recall, remember
        self._exchanges: dict[bytes, None] = {}
        self._lock = threading.Lock()

    def recalled(self, request: Request, way: _Way) -> Request:
        """Return the request with what is recalled for the user's last message."""
        given = request.get(way.messages)
        said = _said(given)
        at = last_said(said)
        block = "" if at is None else self._recall(said[at][1], shown=[text for _, text in said])
        if given is None or not block:
            return request
        sent: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        return {**request, way.messages: [*sent[:at], {"role": "user", "content": block}, *sent[at:]]}

    def remember(self, request: Request, way: _Way, answer: str) -> None:
        """Remember what the user asked in a request, and the answer, where that has a text; all of it is new."""
        said = _said(request.get(way.messages))
        at = last_said(said)
        if not self._remember or at is None or not answer:
            return
        answers = [place for place, (role, text) in enumerate(said) if role == "assistant" and text.strip()]
        first = max((place + 1 for place in answers if place < at), default=0)
        asked = [text for role, text in said[first : at + 1] if role == "user" and text.strip()]
        # An answer behind the question that was remembered with it here: the next request of an agent whose model said
        # something when it called a tool.
        known = [_digest(said[: at + 1], said[place][1]) for place in answers if place > at]
        with self._lock:
            if any(digest in self._exchanges for digest in known):
                asked = []
            self._exchanges[_digest(said[: at + 1], answer)] = None
            if len(self._exchanges) > _EXCHANGES:
                del self._exchanges[next(iter(self._exchanges))]
        new = [*(Message(text, role=Role.USER) for text in asked), Message(answer, role=Role.ASSISTANT)]
        remember_messages("openai", self._memory, new)


@contextmanager
def _requesting() -> Iterator[None]:
    token = _REQUESTING.set(True)
    try:
        yield
    finally:
        _REQUESTING.reset(token)


def _remembering(send: Callable[..., Any], memories: _Memories, way: _Way) -> Callable[..., Any]:
    @functools.wraps(send)
    def remembering(**request: Any) -> Any:
        if _REQUESTING.get():
            return send(**request)
        asked = memories.recalled(request, way)
        with _requesting():
            answer = send(**asked)
        return _Exchange(memories, request, way).answered(answer)

    return remembering


def _remembering_async(send: Callable[..., Any], memories: _Memories, way: _Way) -> Callable[..., Any]:
    @functools.wraps(send)
    async def remembering(**request: Any) -> Any:
        if _REQUESTING.get():
            return await send(**request)
        asked = await asyncio.to_thread(memories.recalled, request, way)
        with _requesting():
            answer = await send(**asked)
        return await asyncio.to_thread(_Exchange(memories, request, way).answered, answer)

    return remembering


@dataclass(slots=True)
class _Exchange:
    """A request and its answer, in whatever form the caller gets it; it is remembered once."""

    memories: _Memories
    request: Request
    way: _Way
    texts: list[str] = field(default_factory=list)
    is_done: bool = False
    is_heard: bool = False

    def answered(self, answer: Any) -> Any:
        """Remember an answer, or have it remembered when its text is complete; return what the caller gets."""
        if isinstance(answer, openai.Stream | openai.AsyncStream):
            self._listen(answer)
        elif isinstance(answer, LegacyAPIResponse):
            self._read(answer)
        elif isinstance(answer, APIResponse | AsyncAPIResponse):
            self._await_parsing(answer)
        else:
            self.texts.append(self.way.text_of(answer))
            self.finish()
        return answer

    def _read(self, raw: LegacyAPIResponse[Any]) -> None:
        """Remember a response that the caller gets raw; what it is parsed to is kept in it."""
        try:
            answer = raw.parse()
        except (openai.OpenAIError, ValueError) as error:
            # The caller, who may not want to parse it, gets it all the same.
            _LOG.warning("an answer that cannot be read is not remembered: %s", error)
        else:
            self.answered(answer)

    def _await_parsing(self, raw: APIResponse[Any] | AsyncAPIResponse[Any]) -> None:
        """Have a response that the caller may read as it comes remembered when the caller has it parsed."""
        parse: Any = raw.parse

        async def aparsed(**options: Any) -> Any:
            return await asyncio.to_thread(self.answered, await parse(**options))

        def parsed(**options: Any) -> Any:
            return self.answered(parse(**options))

        raw.parse = parsed if isinstance(raw, APIResponse) else aparsed  # type: ignore[method-assign]

    def _listen(self, stream: openai.Stream[Any] | openai.AsyncStream[Any]) -> None:
        """Hear the pieces of a stream, which stays the same object and may be handed out several times."""
        if self.is_heard:
            return
        self.is_heard = True
        # What the stream's own iteration reads from.
        if isinstance(stream, openai.Stream):
            stream._iterator = self._pieces(stream._iterator)  # noqa: SLF001 - see above
        else:
            stream._iterator = self._async_pieces(stream._iterator)  # noqa: SLF001 - see above

    def _pieces(self, pieces: Iterator[Any]) -> Iterator[Any]:
        for piece in pieces:
            if self.hear(piece):
                self.finish()
            yield piece
        # For services that do not mark the last piece.
        self.finish()

    async def _async_pieces(self, pieces: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for piece in pieces:
            if self.hear(piece):
                await asyncio.to_thread(self.finish)
            yield piece
        await asyncio.to_thread(self.finish)

    def hear(self, piece: object) -> bool:
        """Take a piece, and report whether the text is complete now."""
        self.texts.append(self.way.text_of(piece))
        # Half an answer is not remembered.
        self.is_done = self.is_done or getattr(piece, "type", None) in _FAILURES
        return self.way.is_last(piece)

    def finish(self) -> None:
        """Remember what was heard, unless it is already, or failed."""
        if not self.is_done:
            self.is_done = True
            self.memories.remember(self.request, self.way, "".join(self.texts))


def _digest(asked: Sequence[tuple[str, str]], answer: str) -> bytes:
    return hashlib.sha256(json.dumps([asked, answer]).encode()).digest()


def _said(given: object) -> list[tuple[str, str]]:
    """Return role and text of a request's messages: a text is the user's, an answer may be the client's own object."""
    if isinstance(given, str):
        return [("user", given)]
    said = []
    for one in given if isinstance(given, Sequence) else ():
        raw: object = one.to_dict() if isinstance(one, openai.BaseModel) else one
        message: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        content = message.get("content")
        parts = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
        # Of the parts of a message only texts count.
        texts = (part.get("text") for part in parts if isinstance(part, Mapping))
        text = content if isinstance(content, str) else "\n".join(part for part in texts if isinstance(part, str))
        said.append((str(message.get("role")), text))
    return said


def _chat_text(answer: Any) -> str:
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


def _response_text(answer: Any) -> str:
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


_CHAT: Final = _Way(messages="messages", text_of=_chat_text, is_last=_ends_chat)
_RESPONSES: Final = _Way(messages="input", text_of=_response_text, is_last=_ends_response)
_RESOURCES: Final = {"chat.completions": _CHAT, "beta.chat.completions": _CHAT, "responses": _RESPONSES}
"""Resources of a client whose methods make such requests."""
