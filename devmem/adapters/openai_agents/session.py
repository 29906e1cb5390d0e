"""The SDK's `Session` over a memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from agents.memory import SessionSettings

from devmem import Filter, Memory, MemoryItem
from devmem.adapters.hosts import writing
from devmem.adapters.openai_agents.items import ITEM, InputItem, given_of, item_of
from devmem.adapters.openai_agents.recalling import Recall
from devmem.collections import Unique, starts_with
from devmem.stores import CollectionMemory

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
        if not isinstance(memory.store, CollectionMemory):
            raise TypeError(f"a session needs a collection, which {memory.store.setup.store_type!r} has not")
        self.session_id = session_id
        settings = dict(session_settings) if isinstance(session_settings, Mapping) else session_settings
        self.session_settings = SessionSettings().resolve(settings)
        self._store = memory.store
        self._whole = memory.settled()
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
        return [given_of(item) for item in await _to_its_end(lambda: self.kept(limit))]

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

    def recall(self, *, limit: int = 5, token_budget: int = 2000, this_session: bool = False) -> Recall:
        """Return what puts older turns that answer the user before them: a `call_model_input_filter` of a run.

        ```python
        config = RunConfig(session_settings={"limit": 20}, call_model_input_filter=session.recall())
        ```

        Args:
            limit: maximum number of memories that are recalled.
            token_budget: maximum size of what is recalled, in estimated tokens.
            this_session: recall from this session only, not from everything in the memory's scope.
        """
        memory = self._memory if this_session else self._whole
        return Recall(memory, self.kept, limit=limit, token_budget=token_budget)

    def kept(self, limit: int | None) -> list[MemoryItem]:
        """Return the items of the history, oldest first: all, or the last `limit`."""
        if limit is None:
            return list(self._store.scan(self._where()))
        return self._store.recent(limit, self._where())[::-1] if limit else []

    def _add(self, items: list[InputItem]) -> None:
        scope, now = self._memory.new_scope(), self._store.setup.clock()
        self._store.store_items([item_of(given, scope, now) for given in items], unique=Unique.ID)

    def _where(self) -> Filter:
        """Return the filter of the history; what else is stored in the session is not of it."""
        return self._memory.matching(Filter(metadata={ITEM: starts_with("{")}))


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
