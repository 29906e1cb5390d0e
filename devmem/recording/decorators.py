"""`record_agent`, `record_tool`, `record_llm` and `record_knowledge`, as decorators and as context managers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from devmem.model.interactions import Participant, ParticipantType
from devmem.recording.calls import Call
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
            input_field: argument of a decorated function that is the question.
            output_field: key of a decorated function's result that is the answer.
        """
        super().__init__(callee, content, params=params, call_id=call_id)
        self._input_field, self._output_field = input_field, output_field

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Record every call of a function: sync, async, a generator of either kind, or one that returns a stream."""
        return cast("Callable[P, R]", self._wrapped(function, inspect.signature(function)))

    def _wrapped(self, function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: object, **kwargs: object) -> object:
                with self._call(signature, args, kwargs) as call:
                    result = await function(*args, **kwargs)
                    call.output(self._answer(result))
                    return result

            return asynchronous

        @functools.wraps(function)
        def synchronous(*args: object, **kwargs: object) -> object:
            call = self._call(signature, args, kwargs)
            if inspect.isgeneratorfunction(function):
                return recorded_stream(call, function(*args, **kwargs))
            if inspect.isasyncgenfunction(function):
                return recorded_async_stream(call, function(*args, **kwargs))
            return self._called(call, function, args, kwargs)

        return synchronous

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
        if inspect.isgenerator(result):
            return recorded_stream(call, result)
        if inspect.isasyncgen(result):
            return recorded_async_stream(call, result)
        call.output(self._answer(result))
        call.finish()
        return result

    def _call(self, signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, object]) -> Call:
        params = _arguments(signature, args, kwargs)
        content = params.get(self._input_field) if self._input_field else None
        return Call(self._callee, content, params=params)

    def _answer(self, result: object) -> object:
        if self._output_field and isinstance(result, Mapping):
            return result.get(self._output_field)
        return result


def _arguments(signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
    try:
        arguments = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:
        # The call itself raises it, in the words that its author expects.
        return dict(kwargs)
    arguments.pop("self", None)
    return arguments


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
