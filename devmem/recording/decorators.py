"""`record_agent`, `record_tool`, `record_llm` and `record_knowledge`, as decorators and as context managers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, ParamSpec, TypeVar, cast

from devmem.model.interactions import Participant, ParticipantType
from devmem.recording.calls import ARGUMENTS, Call
from devmem.recording.client_streams import observed
from devmem.recording.streams import recorded_async_stream, recorded_stream

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
    ) -> None:
        """Describe a call; see `Call`.

        Args:
            callee: who is called.
            content: the question; None takes the arguments.
            params: arguments of the call.
            call_id: identifies the call where several see it.
            input_field: argument that is the question, where `content` does not say it.
            output_field: key of the result that is the answer.

        Raises:
            TypeError: the callee's name is no text, or the arguments are no mapping.
        """
        name, arguments = cast("object", callee.name), cast("object", params or {})
        if not (isinstance(name, str) and isinstance(arguments, Mapping)):
            raise TypeError(f"a name is a text and `params` are a mapping, not {name!r} and {arguments!r}")
        self._input_field, self._output_field = input_field, output_field
        question = self._question(arguments) if content is None else content
        super().__init__(callee, question, params=params, call_id=call_id)

    def output(self, value: object) -> None:
        """Set the answer, of any type: a result, of which `output_field` may be the answer."""
        super().output(self._answer(value))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Record every call of a function: sync, async, a generator of either kind, or one that returns a stream."""
        return cast("Callable[P, R]", self._wrapped(function, _named_arguments(function)))

    def _wrapped(self, function: Callable[..., Any], named: NamedArguments) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: object, **kwargs: object) -> object:
                return await self._awaited(self._call(named(args, kwargs)), function(*args, **kwargs))

            return asynchronous
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            recorded = recorded_stream if inspect.isgeneratorfunction(function) else recorded_async_stream

            @functools.wraps(function)
            def streaming(*args: object, **kwargs: object) -> object:
                return recorded(self._call(named(args, kwargs)), function(*args, **kwargs))

            return streaming

        @functools.wraps(function)
        def synchronous(*args: object, **kwargs: object) -> object:
            return self._called(self._call(named(args, kwargs)), function, args, kwargs)

        return synchronous

    async def _awaited(self, call: Call, coroutine: Coroutine[Any, Any, Any]) -> object:
        call.begin()
        try:
            with call.inside():
                result = await coroutine
        except BaseException as error:
            call.finish(error)
            raise
        return self._answered(call, result)

    def _called(
        self, call: Call, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        call.begin()
        try:
            with call.inside():
                result = function(*args, **kwargs)
        except BaseException as error:
            call.finish(error)
            raise
        return self._answered(call, result)

    def _answered(self, call: Call, result: object) -> object:
        """Finish a call whose function returned, or pass the stream or the coroutine on that it returned."""
        # By the type alone: a proxy without its target raises as soon as it is asked for its class.
        kind = type(result)
        if issubclass(kind, GeneratorType):
            return recorded_stream(call, cast("Generator[Any, Any, Any]", result))
        if issubclass(kind, AsyncGeneratorType):
            return recorded_async_stream(call, cast("AsyncGenerator[Any, Any]", result))
        if issubclass(kind, CoroutineType):
            return self._awaited(call, cast("Coroutine[Any, Any, Any]", result))
        if not observed(call, result):
            call.output(self._answer(result))
            call.finish()
        return result

    def _call(self, params: dict[str, object]) -> Call:
        return Call(self._callee, self._question(params), params=params)

    def _question(self, params: Mapping[str, object]) -> object:
        return params.get(self._input_field, ARGUMENTS) if self._input_field else ARGUMENTS

    def _answer(self, result: object) -> object:
        if self._output_field and issubclass(type(result), Mapping):
            return cast("Mapping[str, object]", result).get(self._output_field)
        return result


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
