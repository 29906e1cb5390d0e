"""Older turns that answer the user, put into the model's input."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from agents.run import CallModelData, ModelInputData

from devmem import Memory, MemoryItem
from devmem.adapters.openai_agents.items import InputItem, given_of, text_of
from devmem.errors import DevmemError

_LOG: Final = logging.getLogger(__name__)


class Recall:
    """A `call_model_input_filter` that puts what answers the user before the user's last message, quoted.

    Only the model's input has it: nothing of it is stored in the session. What the input has already is not recalled.
    A memory that fails is logged and costs the run nothing.
    """

    def __init__(
        self,
        memory: Memory,
        kept: Callable[[int | None], Sequence[MemoryItem]],
        *,
        limit: int,
        token_budget: int,
    ) -> None:
        """Recall from a memory; `kept` returns the last items of the session's history."""
        self._memory, self._kept, self._limit, self._budget = memory, kept, limit, token_budget

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the model's input with what is recalled."""
        given = data.model_data
        at = _last_said(given.input)
        if at is None:
            return given
        try:
            block = await asyncio.to_thread(self._block, given.input, at)
        except DevmemError as error:
            _LOG.warning("nothing is recalled for a run: %s", error)
            return given
        if not block:
            return given
        recalled: InputItem = {"role": "user", "content": block}
        return ModelInputData(input=[*given.input[:at], recalled, *given.input[at:]], instructions=given.instructions)

    def _block(self, items: Sequence[InputItem], at: int) -> str:
        # By their texts: the SDK takes ids and other fields off before the model sees an item.
        shown = {text_of(item) for item in items}
        known = [item.id for item in self._kept(len(items)) if text_of(given_of(item)) in shown]
        return self._memory.context(text_of(items[at]), limit=self._limit, token_budget=self._budget, exclude=known)


def _last_said(items: Sequence[InputItem]) -> int | None:
    """Return the place of the user's last message with a text; None where there is none."""
    for at in reversed(range(len(items))):
        if items[at].get("role") == "user" and text_of(items[at]).strip():
            return at
    return None
