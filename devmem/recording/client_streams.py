"""Streams of model clients: objects that read from a generator of theirs, and whose pieces make one answer."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getattr_static
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final, cast

from devmem.recording.calls import Call
from devmem.recording.streams import recorded_async_stream, recorded_stream

_SOURCE: Final = "_iterator"
"""Attribute of the streams of OpenAI's and Anthropic's clients that they read from."""
_SILENT: Final = ("message_start", "message_delta", "message_stop", "content_block_start", "content_block_stop", "ping")
"""Anthropic's events without a text."""


def observed(call: Call, stream: Any) -> bool:  # noqa: ANN401 - whatever a function returned
    """Record the pieces of a client's stream while it is read, if it is one; it stays the same object."""
    kind = type(stream)
    source = getattr_static(stream, _SOURCE, None) if hasattr(kind, "__next__") or hasattr(kind, "__anext__") else None
    if isinstance(source, GeneratorType):
        _observe(call, stream, cast("GeneratorType[Any, Any, Any]", recorded_stream(call, source, answer)))
    elif isinstance(source, AsyncGeneratorType):
        _observe_async(call, stream, cast("AsyncGeneratorType[Any, Any]", recorded_async_stream(call, source, answer)))
    else:
        return False
    return True


def _observe(call: Call, stream: Any, recorded: GeneratorType[Any, Any, Any]) -> None:  # noqa: ANN401 - a client's
    close = stream.close

    def closing() -> None:
        try:
            # The stream and its generator refer to each other: left alone, they would end when garbage is collected.
            # Where another thread is reading, closing the connection ends the generator there.
            if not recorded.gi_running:
                recorded.close()
                _finish_unread(call)
        finally:
            close()

    stream._iterator, stream.close = recorded, closing  # noqa: SLF001 - see `_SOURCE`


def _observe_async(call: Call, stream: Any, recorded: AsyncGeneratorType[Any, Any]) -> None:  # noqa: ANN401 - a client's
    close = stream.close

    async def closing() -> None:
        try:
            if not recorded.ag_running:
                await recorded.aclose()
                _finish_unread(call)
        finally:
            await close()

    stream._iterator, stream.close = recorded, closing  # noqa: SLF001 - see `_SOURCE`


def _finish_unread(call: Call) -> None:
    """Record the call of a stream that was closed before anything was read of it; any other call is finished."""
    call.output("")
    call.finish()


def answer(pieces: Sequence[object]) -> object:
    """Return the answer that the pieces of a stream make: its text, the whole response, or else the pieces."""
    for piece in pieces:
        if getattr(piece, "type", None) == "response.completed":
            return getattr(piece, "response", piece)
    texts = [_text_of(piece) for piece in pieces]
    return list(pieces) if None in texts else "".join(text for text in texts if text)


def _text_of(piece: object) -> str | None:
    """Return the text of a piece, which may be empty; None where it has something else, such as a call of a tool."""
    choices = getattr(piece, "choices", None)
    if isinstance(choices, list):
        deltas = [getattr(choice, "delta", None) for choice in choices]
    elif getattr(piece, "type", None) == "content_block_delta":
        deltas = [getattr(piece, "delta", None)]
    else:
        return "" if getattr(piece, "type", None) in _SILENT else None
    if any(getattr(delta, "tool_calls", None) or hasattr(delta, "partial_json") for delta in deltas) or len(deltas) > 1:
        return None
    texts = (getattr(delta, "content", None) or getattr(delta, "text", None) for delta in deltas)
    return "".join(text for text in texts if isinstance(text, str))
