"""Answers of a chat completions API: whole ones, and those that come in pieces."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from devmem.llm.base import ChatReply, ToolCall, Usage

_LOG: Final = logging.getLogger(__name__)


class _Lenient(BaseModel):
    """Services leave out what they have nothing for, and write null."""

    model_config = ConfigDict(extra="ignore")


def _json_of(arguments: object) -> object:
    """Return the arguments of a call as JSON, where a service sends them parsed."""
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict | list) else arguments


class _Function(_Lenient):
    name: str | None = None
    arguments: Annotated[str | None, BeforeValidator(_json_of)] = None


class _ToolCall(_Lenient):
    id: str | None = None
    index: int | None = None
    function: _Function | None = None


class _Message(_Lenient):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    def counted(self) -> Usage:
        return Usage(input_tokens=self.prompt_tokens or 0, output_tokens=self.completion_tokens or 0)


def _usage_or_none(usage: object, read: ValidatorFunctionWrapHandler) -> _Usage | None:
    """Read what an answer cost; counts that are none cost nobody the answer."""
    try:
        return read(usage)  # type: ignore[no-any-return] # that of `_Usage`
    except ValidationError:
        _LOG.warning("a chat service counts tokens in a form that is not known; they are not reported")
        return None


_Cost = Annotated[_Usage | None, WrapValidator(_usage_or_none)]


class _Choice(_Lenient):
    message: _Message


class _Answer(_Lenient):
    choices: list[_Choice]
    usage: _Cost = None


class _Piece(_Lenient):
    delta: _Message | None = None
    finish_reason: str | None = None


class _Chunk(_Lenient):
    choices: list[_Piece] | None = None
    usage: _Cost = None


def parse_answer(body: bytes) -> ChatReply:
    """Return the reply in the body of an answer; without choices its text is empty.

    Raises:
        pydantic.ValidationError: it is no answer to a chat request.
        RecursionError: it is nested too deeply.
    """
    answer = _Answer.model_validate_json(body)
    message = answer.choices[0].message if answer.choices else _Message()
    return ChatReply(
        text=message.content or "",
        tool_calls=_calls(message.tool_calls or ()),
        usage=answer.usage.counted() if answer.usage else None,
    )


class StreamedAnswer:
    """Puts the pieces of one answer together."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[int, _ToolCall] = {}
        self._usage: Usage | None = None
        self.is_finished = False
        """Whether the service said that the answer is complete."""

    def add(self, chunk: dict[str, Any]) -> str:
        """Take a piece, and return its text.

        Raises:
            pydantic.ValidationError: it is none.
        """
        piece = _Chunk.model_validate(chunk)
        if piece.usage is not None:
            self._usage = piece.usage.counted()
        choice = piece.choices[0] if piece.choices else _Piece()
        self.is_finished = self.is_finished or choice.finish_reason is not None
        delta = choice.delta or _Message()
        for call in delta.tool_calls or ():
            self._add_call(call)
        text = delta.content or ""
        self._texts.append(text)
        return text

    def _add_call(self, piece: _ToolCall) -> None:
        known = self._calls.setdefault(len(self._calls) if piece.index is None else piece.index, _ToolCall())
        known.id = known.id or piece.id
        known.function = known.function or _Function()
        if piece.function is not None:
            known.function.name = known.function.name or piece.function.name
            known.function.arguments = (known.function.arguments or "") + (piece.function.arguments or "")

    def reply(self) -> ChatReply:
        """Return the whole answer."""
        calls = [self._calls[index] for index in sorted(self._calls)]
        return ChatReply(text="".join(self._texts), tool_calls=_calls(calls), usage=self._usage)


def _calls(found: Iterable[_ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=call.id or "", name=call.function.name, arguments=call.function.arguments or "")
        for call in found
        if call.function is not None and call.function.name
    )
