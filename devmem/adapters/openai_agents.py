"""A session of the OpenAI Agents SDK over a memory; needs the extra `openai-agents`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

from devmem import Filter, Memory, MemoryItem, Scope
from devmem.adapters.hosts import collection_of, kept_message, recalled, role_of, writing
from devmem.adapters.hosts import require as _require
from devmem.messages import Message
from devmem.storage import Unique, starts_with
from devmem.stores import SourceKind

_require("agents.memory", package="openai-agents", extra="openai-agents")

from agents import TResponseInputItem  # noqa: E402 - first the error that names the extra
from agents.memory import SessionSettings  # noqa: E402
from agents.run import CallModelData, ModelInputData  # noqa: E402

__all__ = ["DevmemSession", "Recall"]


InputItem: TypeAlias = TResponseInputItem

ITEM: Final = "openai_agents.item"
"""Metadata key of the input item as it came, as JSON text."""


def item_of(given: InputItem, scope: Scope, now: float) -> MemoryItem:
    """Return the item that keeps an input item; its text is searched, and it is a message to whoever reads it.

    Args:
        given: a message, a tool call, the output of one, or whatever else the SDK keeps.
        scope: whom the session belongs to.
        now: seconds since the epoch.

    Raises:
        TypeError: it has no JSON form.
    """
    form = json.dumps(given, ensure_ascii=False)
    raw = cast("Mapping[str, Any]", given)
    message = Message(text_of(given), role=role_of(raw.get("role")), source=_speaker(raw))
    return kept_message(message, scope, now, {ITEM: form})


def given_of(item: MemoryItem) -> InputItem:
    """Return the input item that an item keeps."""
    return cast("InputItem", json.loads(str(item.metadata[ITEM])))


def text_of(given: InputItem) -> str:
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


class Recall:
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
        at = _last_said(given.input)
        if at is None:
            return given
        block = await asyncio.to_thread(self._block, given.input, at)
        if not block:
            return given
        said: InputItem = {"role": "user", "content": block}
        return ModelInputData(input=[*given.input[:at], said, *given.input[at:]], instructions=given.instructions)

    def _block(self, items: Sequence[InputItem], at: int) -> str:
        # By their texts: the SDK takes ids and other fields off before the model sees an item.
        shown = [text_of(item) for item in items]
        return self._recalled(shown[at], shown=shown)


def _last_said(items: Sequence[InputItem]) -> int | None:
    """Return the place of the user's last message with a text; None where there is none."""
    for at in reversed(range(len(items))):
        if items[at].get("role") == "user" and text_of(items[at]).strip():
            return at
    return None


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
        self._store = collection_of(memory, "a session")
        self.session_id = session_id
        settings = dict(session_settings) if isinstance(session_settings, Mapping) else session_settings
        self.session_settings = SessionSettings().resolve(settings)
        self._whole = memory.scoped()
        self._memory = self._whole.scoped(session=session_id)

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
        return [given_of(item) for item in await _to_its_end(lambda: self._kept(limit))]

    async def add_items(self, items: list[InputItem]) -> None:
        """Append items to the history, all of them or, after an error, none.

        Raises:
            TypeError: one of them has no JSON form.
            CollectionError: they cannot be written.
        """
        if items:
            with writing(_HOST, self._whole):
                await _to_its_end(lambda: self._add(items))

    async def pop_item(self) -> InputItem | None:
        """Take the last item out of the history and return it; None where there is none."""
        with writing(_HOST, self._whole):
            popped = await _to_its_end(lambda: self._store.pop(1, self._where()))
        return given_of(popped[0]) if popped else None

    async def clear_session(self) -> None:
        """Delete the history, with its earlier versions."""
        with writing(_HOST, self._whole):
            await _to_its_end(lambda: self._store.erase(where=self._where()))

    def recall(
        self, *, limit: int = 5, token_budget: int = 2000, this_session: bool = False, relevance: bool = True
    ) -> Recall:
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
        memory = self._memory if this_session else self._whole
        return Recall(memory, limit=limit, token_budget=token_budget, relevance=relevance)

    def _kept(self, limit: int | None) -> list[MemoryItem]:
        """Return the items of the history, oldest first: all, or the last `limit`."""
        if limit is None:
            return list(self._store.scan(self._where()))
        return self._store.recent(limit, self._where())[::-1] if limit else []

    def _add(self, items: list[InputItem]) -> None:
        scope, now = self._memory.guard.new_scope(), self._store.setup.clock()
        self._store.store_items([item_of(given, scope, now) for given in items], unique=Unique.ID)

    def _where(self) -> Filter:
        """Return the filter of the history; what else is stored in the session is not of it."""
        return self._memory.guard.matching(Filter(metadata={ITEM: starts_with("{")}))


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
