"""Calls that answer bit by bit: the call is the caller only while the stream runs, and its output is the whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, TypeAlias

from devmem.recording.calls import Call

Whole: TypeAlias = Callable[[Sequence[object]], object]
"""Returns the parts of a stream as one value."""


def recorded_stream(
    call: Call, stream: Generator[Any, Any, Any], whole: Whole | None = None
) -> Generator[Any, Any, Any]:
    """Pass a generator on, and record its parts as the output of a call when it ends; None for `whole` is `joined`."""
    parts: list[Any] = []
    call.begin()
    error: BaseException | None = None
    try:
        step: Callable[[Any], Any] = stream.send
        value: Any = None
        while True:
            with call.inside():
                part = step(value)
            parts.append(part)
            try:
                step, value = stream.send, (yield part)
            except GeneratorExit:
                with call.inside():
                    stream.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is thrown into the stream
                step, value = stream.throw, thrown
    except StopIteration as stop:
        return stop.value
    except GeneratorExit:
        raise
    except BaseException as raised:
        error = raised
        raise
    finally:
        call.output((whole or joined)(parts))
        call.finish(error)


async def recorded_async_stream(
    call: Call, stream: AsyncGenerator[Any, Any], whole: Whole | None = None
) -> AsyncGenerator[Any, Any]:
    """Pass an async generator on, and record its parts as the output of a call when it ends; see `recorded_stream`."""
    parts: list[Any] = []
    call.begin()
    error: BaseException | None = None
    try:
        step: Callable[[Any], Any] = stream.asend
        value: Any = None
        while True:
            with call.inside():
                part = await step(value)
            parts.append(part)
            try:
                step, value = stream.asend, (yield part)
            except GeneratorExit:
                with call.inside():
                    await stream.aclose()
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is thrown into the stream
                step, value = stream.athrow, thrown
    except (StopAsyncIteration, GeneratorExit):
        return
    except BaseException as raised:
        error = raised
        raise
    finally:
        call.output((whole or joined)(parts))
        call.finish(error)


def joined(parts: Sequence[object]) -> object:
    """Return the parts of a stream as one value: one text where all of them are texts."""
    return "".join(parts) if parts and all(isinstance(part, str) for part in parts) else list(parts)  # type: ignore[arg-type]
