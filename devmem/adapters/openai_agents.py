"""A session of the OpenAI Agents SDK over a memory; needs the extra `openai-agents`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

from devmem import Filter, Memory
from devmem.adapters.hosts import HostHistory, last_said, recalled, role_of
from devmem.adapters.hosts import require as _require
from devmem.messages import Message
from devmem.storage import starts_with
from devmem.stores import SourceKind

_require("agents.memory", package="openai-agents", extra="openai-agents")

from agents import TResponseInputItem
from agents.memory import SessionSettings
from agents.run import CallModelData, ModelInputData

__all__ = ["DevmemSession", "RecallFilter"]


InputItem: TypeAlias = TResponseInputItem

ITEM: Final = "openai_agents.item"
"""Metadata key of the input item as it came, as JSON text."""


def text_of(given: InputItem | Mapping[str, Any]) -> str:
    """Return the text of an input item; empty where it has none, as an image or encrypted reasoning."""
    raw = cast("Mapping[str, Any]", given)
    if raw.get("type") == "function_call":
        return f"{raw.get('name')}({raw.get('arguments')})"
    content = raw.get("output") if str(raw.get("type")).endswith("_output") else raw.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else raw.get("summary") or ()
    texts = (part.get("text") or part.get("refusal") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


_CALL: Final = "call of "
"""Begins the name of the source of a tool call; that of its result is the tool's."""
_NO_CALLS: Final = Filter(none_of=(Filter(source_kind=SourceKind.TOOL.value, source_name=starts_with(_CALL)),))


def _speaker(raw: Mapping[str, Any]) -> str:
    """Return the name of who said it, where the item has one; of a tool call that of the tool."""
    name = raw.get("name")
    if not isinstance(name, str):
        return ""
    return f"{_CALL}{name}" if str(raw.get("type")).endswith("_call") else name


class RecallFilter:
    """A `call_model_input_filter` that puts what answers the user before the user's last message, quoted.

    Only the model's input has it: nothing of it is stored in the session. What the input has already is not recalled,
    nor are calls of tools, whose results and answers say what came of them.
    A memory that fails is logged and costs the run nothing.
    """

    def __init__(self, memory: Memory, *, limit: int, token_budget: int, relevance: bool = True) -> None:
        """Recall from a memory."""
        self._recalled = partial(
            recalled, _HOST, memory, limit=limit, token_budget=token_budget, relevance=relevance, where=_NO_CALLS
        )

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the model's input with what is recalled."""
        given = data.model_data
        # By their texts: the SDK takes ids and other fields off before the model sees an item.
        said = [(item.get("role"), text_of(item)) for item in given.input]
        at = last_said(said)
        if at is None:
            return given
        block = await asyncio.to_thread(self._recalled, said[at][1], shown=[text for _, text in said])
        if not block:
            return given
        shown: InputItem = {"role": "user", "content": block}
        return ModelInputData(input=[*given.input[:at], shown, *given.input[at:]], instructions=given.instructions)


T = TypeVar("T")
_HOST: Final = "openai_agents"


class DevmemSession:
    """The history of one conversation of the Agents SDK, in a memory that other programs use at the same time.

    ```python
    session = DevmemSession("thread-1", devmem.open("notes.db").scoped(user="ann"))
    result = await Runner.run(agent, "When is the launch?", session=session)
    ```

    Every call works in a thread and holds no lock of an event loop: any number of loops, threads and processes may use
    one session. A call that is cancelled ends first, so that what it did is known.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        """Take the part of a memory that belongs to a session, by its id; the caller closes the memory.

        Args:
            session_id: name of the conversation, which is the `session` of its items' scope.
            memory: a memory, or a scoped handle, which the session never leaves.
            session_settings: `limit` is the maximum number of items of the history that a run is given.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
            ValueError: the id is blank.
        """
        self._history = HostHistory(_HOST, ITEM, memory, session_id)
        self.session_id = session_id
        settings = dict(session_settings) if isinstance(session_settings, Mapping) else session_settings
        self.session_settings = SessionSettings().resolve(settings)
        self._whole = memory.scoped()

    async def get_items(self, limit: int | None = None) -> list[InputItem]:
        """Return the history, oldest first: all of it, or the last `limit` items.

        Args:
            limit: maximum number of items; None takes that of the settings.

        Raises:
            ValueError: the limit is negative.
            CollectionError: the memory cannot be read.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit < 0:
            raise ValueError(f"`limit` is at least 0, not {limit}")
        return await _to_its_end(lambda: self._history.forms(limit))

    async def add_items(self, items: list[InputItem]) -> None:
        """Append items to the history, all of them or, after an error, none.

        Raises:
            TypeError: one of them has no JSON form.
            CollectionError: they cannot be written.
        """
        raws = [cast("Mapping[str, Any]", item) for item in items]
        said = [(Message(text_of(raw), role=role_of(raw.get("role")), source=_speaker(raw)), raw) for raw in raws]
        await _to_its_end(lambda: self._history.add(said))

    async def pop_item(self) -> InputItem | None:
        """Take the last item out of the history and return it; None where there is none."""
        return cast("InputItem | None", await _to_its_end(self._history.pop))

    async def clear_session(self) -> None:
        """Delete the history, with its earlier versions."""
        await _to_its_end(self._history.clear)

    def recall(
        self, *, limit: int = 5, token_budget: int = 2000, this_session: bool = False, relevance: bool = True
    ) -> RecallFilter:
        """Return what puts older turns that answer the user before them: a `call_model_input_filter` of a run.

        ```python
        config = RunConfig(session_settings={"limit": 20}, call_model_input_filter=session.recall())
        ```

        Args:
            limit: maximum number of memories that are recalled.
            token_budget: maximum size of the recalled block, in estimated tokens.
            this_session: recall from this session only, not from everything in the memory's scope.
            relevance: whether nothing is recalled for a message that nothing stored has to do with, such as "ok".
        """
        memory = self._whole.scoped(session=self.session_id) if this_session else self._whole
        return RecallFilter(memory, limit=limit, token_budget=token_budget, relevance=relevance)


async def _to_its_end(call: Callable[[], T]) -> T:
    """Do a call in a thread; cancelled, wait for its end all the same, which only then is known."""
    task = asyncio.ensure_future(asyncio.to_thread(call))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    # Nobody is left who could be told of its error, which the event loop would report as never retrieved.
    task.exception()
    raise cancelled
