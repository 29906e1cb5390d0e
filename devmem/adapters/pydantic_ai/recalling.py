"""A history processor that puts what answers the user before the user's last prompt."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from anyio.to_thread import run_sync
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelRequestPart, TextContent, UserPromptPart
from pydantic_ai.tools import RunContext

from devmem.adapters.pydantic_ai.remembering import MARK, is_recalled, text_of_prompt
from devmem.adapters.pydantic_ai.scopes import MemoryOf, memory_of
from devmem.errors import DevmemError

Processor: TypeAlias = Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]

_LOG: Final = logging.getLogger(__name__)


def recalling(memory: MemoryOf, *, limit: int = 5, token_budget: int = 2000) -> Processor:
    """Return a history processor, for the capability `ProcessHistory`, that recalls before each request.

    What was recalled for an earlier prompt is taken out again, so that a history has one block at most. A memory that
    fails is logged and costs the run nothing.

    Args:
        memory: a memory or a scoped handle, or a function that returns that of a run by its deps.
        limit: maximum number of memories that are recalled.
        token_budget: maximum size of what is recalled, in estimated tokens.
    """

    async def process(run: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        history = [_without_recalled(message) for message in messages]
        at, prompt = _last_prompt(history)
        if not prompt:
            return history
        mine = memory_of(memory, run)
        try:
            block = await run_sync(lambda: mine.context(prompt, limit=limit, token_budget=token_budget))
        except DevmemError as error:
            _LOG.warning("nothing is recalled for a run: %s", error)
            return history
        asked = history[at]
        if block and isinstance(asked, ModelRequest):
            recalled = UserPromptPart([TextContent(block, metadata=MARK)])
            history[at] = replace(asked, parts=_before_prompt(asked.parts, recalled))
        return history

    return process


def _last_prompt(messages: Sequence[ModelMessage]) -> tuple[int, str]:
    """Return the place and the text of the user's last prompt; an empty text where there is none."""
    for at in reversed(range(len(messages))):
        message = messages[at]
        if isinstance(message, ModelRequest) and (text := text_of_prompt(message).strip()):
            return at, text
    return 0, ""


def _before_prompt(parts: Sequence[ModelRequestPart], recalled: UserPromptPart) -> list[ModelRequestPart]:
    at = next(at for at, part in enumerate(parts) if isinstance(part, UserPromptPart))
    return [*parts[:at], recalled, *parts[at:]]


def _without_recalled(message: ModelMessage) -> ModelMessage:
    if not isinstance(message, ModelRequest) or not any(is_recalled(part) for part in message.parts):
        return message
    return replace(message, parts=[part for part in message.parts if not is_recalled(part)])
