"""`record_agent`, `record_tool`, `record_llm` and `record_knowledge`, as decorators and as context managers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from inspect import getattr_static
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, ParamSpec, TypeAlias, TypeGuard, TypeVar, cast

from devmem.model.interactions import Participant, ParticipantType
from devmem.recording.calls import ARGUMENTS, Call

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


_SOURCE: Final = "_iterator"
"""Attribute of the streams of OpenAI's and Anthropic's clients that they read from."""
_SILENT: Final = ("message_start", "message_delta", "message_stop", "content_block_start", "content_block_stop", "ping")
"""Anthropic's events without a text."""


def observed(call: Call, stream: Any) -> bool:  # noqa: ANN401 - whatever a function returned
    """Record the pieces of a client's stream while it is read, if it is one; it stays the same object."""
    kind = type(stream)
    source = getattr_static(stream, _SOURCE, None) if hasattr(kind, "__next__") or hasattr(kind, "__anext__") else None
    if not isinstance(source, GeneratorType | AsyncGeneratorType):
        return False
    close, recorded = stream.close, _recorded(call, source, answer)

    def unread() -> None:
        # Of a stream that was closed before anything was read of it; any other call is finished.
        call.output("")
        call.finish()

    def closing() -> None:
        try:
            # The stream and its generator refer to each other: left alone, they would end when garbage is collected.
            # Where another thread is reading, closing the connection ends the generator there.
            if not recorded.gi_running:
                recorded.close()
                unread()
        finally:
            close()

    async def closing_async() -> None:
        try:
            if not recorded.ag_running:
                await recorded.aclose()
                unread()
        finally:
            await close()

    stream._iterator = recorded  # noqa: SLF001 - see `_SOURCE`
    stream.close = closing if isinstance(source, GeneratorType) else closing_async
    return True


def _recorded(call: Call, stream: Any, whole: Whole) -> Any:  # noqa: ANN401 - a generator of either kind
    if isinstance(stream, GeneratorType):
        return recorded_stream(call, stream, whole)
    return recorded_async_stream(call, stream, whole)


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


P = ParamSpec("P")
R = TypeVar("R")


class RecordedCall(Call):
    """A call as a context manager, or a decorator that records every call of a function.

    with record_tool("calculator", params={"x": 2}) as call:
        call.output(4)

    @record_llm("gpt", input_field="prompt")
    def ask(prompt): ...
    """

    def __init__(
        self,
        callee: Participant,
        content: object = None,
        *,
        params: Mapping[str, object] | None = None,
        call_id: str | None = None,
        input_field: str | None = None,
        output_field: str | None = None,
        auto_trace: bool = True,
        collection_types: Iterable[ParticipantType | str] | None = None,
    ) -> None:
        """Describe a call; see `Call`.

        Args:
            callee: who is called.
            content: the question; None takes the arguments.
            params: arguments of the call.
            call_id: identifies the call where several see it.
            input_field: argument that is the question, where `content` does not say it.
            output_field: key of the result that is the answer, and of the parts of a stream those of the answer;
                where none has the key, the whole is.
            auto_trace: see `Call`.
            collection_types: see `Call`.

        Raises:
            TypeError: the callee's name is not text, or the arguments are not a mapping.
            ValueError: there is no such kind of callee.
        """
        name, arguments = cast("object", callee.name), cast("object", params or {})
        if not (isinstance(name, str) and isinstance(arguments, Mapping)):
            raise TypeError(f"a name is a text and `params` are a mapping, not {name!r} and {arguments!r}")
        self._input_field, self._output_field = input_field, output_field
        question = self._question(arguments) if content is None else content
        super().__init__(
            callee,
            question,
            params=params,
            call_id=call_id,
            auto_trace=auto_trace,
            collection_types=collection_types,
        )

    def output(self, value: object) -> None:
        """Set the answer, of any type: a result, of which `output_field` may be the answer."""
        super().output(self._answer(value))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Record every call of a function: sync, async, a generator of either kind, or one that returns a stream."""
        named = _named_arguments(function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: P.args, **kwargs: P.kwargs) -> object:
                return await self._awaited(self._call(named(args, kwargs)), function(*args, **kwargs))

            return cast("Callable[P, R]", asynchronous)

        @functools.wraps(function)
        def synchronous(*args: P.args, **kwargs: P.kwargs) -> object:
            call = self._call(named(args, kwargs))
            call.begin()
            try:
                with call.inside():
                    result = function(*args, **kwargs)
            except BaseException as error:
                call.finish(error)
                raise
            return self._answered(call, result)

        return cast("Callable[P, R]", synchronous)

    async def _awaited(self, call: Call, coroutine: Coroutine[Any, Any, Any]) -> object:
        call.begin()
        try:
            with call.inside():
                result = await coroutine
        except BaseException as error:
            call.finish(error)
            raise
        return self._answered(call, result)

    def _answered(self, call: Call, result: object) -> object:
        """Finish a call whose function returned, or pass the stream or the coroutine on that it returned."""
        # By the type alone: a proxy without its target raises as soon as it is asked for its class.
        kind = type(result)
        if issubclass(kind, GeneratorType | AsyncGeneratorType):
            return _recorded(call, result, self._whole)
        if issubclass(kind, CoroutineType):
            return self._awaited(call, cast("Coroutine[Any, Any, Any]", result))
        if not observed(call, result):
            call.output(self._answer(result))
            call.finish()
        return result

    def _call(self, params: dict[str, object]) -> Call:
        question, traced, types = self._question(params), self._auto_trace, self._types
        return Call(self._callee, question, params=params, auto_trace=traced, collection_types=types)

    def _question(self, params: Mapping[str, object]) -> object:
        return params.get(self._input_field, ARGUMENTS) if self._input_field else ARGUMENTS

    def _answer(self, result: object) -> object:
        return result[self._output_field] if self._has_answer(result) else result

    def _has_answer(self, result: object) -> TypeGuard[Mapping[str | None, object]]:
        # By the type alone, as in `_answered`.
        known = cast("Mapping[object, object]", result) if issubclass(type(result), Mapping) else ()
        return self._output_field is not None and self._output_field in known

    def _whole(self, parts: Sequence[object]) -> object:
        """Return the parts of a stream as one value: of parts with the field of the answer, their answers."""
        return joined([self._answer(part) for part in parts if self._has_answer(part)] or parts)


NamedArguments = Callable[[tuple[object, ...], dict[str, object]], dict[str, object]]
"""Returns the arguments of a call by their names."""
_SIMPLE: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_BOUND: Final = ("self", "cls")


def _named_arguments(function: Callable[..., Any]) -> NamedArguments:
    """Return what names the arguments of a function; what a method is called on is no argument.

    Arguments that do not fit are named as far as possible: the call itself raises, in the words that its author
    expects.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Functions written in C may have none.
        return lambda args, kwargs: {**({"args": list(args)} if args else {}), **kwargs}
    names, skipped = list(signature.parameters), 0
    if names and names[0] in _BOUND:
        names, skipped = names[1:], 1
    if all(parameter.kind in _SIMPLE for parameter in signature.parameters.values()):
        return lambda args, kwargs: dict(zip(names, args[skipped:], strict=False)) | kwargs

    def bound(args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return dict(kwargs)
        return {name: value for name, value in arguments.items() if name in names}

    return bound


def record_agent(name: str, content: object = None, **options: Any) -> RecordedCall:  # noqa: ANN401
    """Record a call of an agent; see `RecordedCall` for the options."""
    return RecordedCall(Participant(name, ParticipantType.AGENT), content, **options)


def record_tool(name: str, content: object = None, **options: Any) -> RecordedCall:  # noqa: ANN401
    """Record a call of a tool; see `RecordedCall` for the options."""
    return RecordedCall(Participant(name, ParticipantType.TOOL), content, **options)


def record_llm(name: str, content: object = None, **options: Any) -> RecordedCall:  # noqa: ANN401
    """Record a call of a language model; see `RecordedCall` for the options."""
    return RecordedCall(Participant(name, ParticipantType.LLM), content, **options)


def record_knowledge(name: str, content: object = None, **options: Any) -> RecordedCall:  # noqa: ANN401
    """Record a query of a knowledge base; see `RecordedCall` for the options."""
    return RecordedCall(Participant(name, ParticipantType.KNOWLEDGE), content, **options)
