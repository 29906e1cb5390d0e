"""Google ADK's memory service over a memory; needs the extra `google-adk`.

runner = Runner(agent=agent, app_name="shop", session_service=..., memory_service=DevmemMemoryService(memory))
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote
from uuid import uuid4

from pydantic_core import from_json, to_json

import devmem
from devmem import Filter, Memory, MemoryItem
from devmem.adapters.hosts import require as _require
from devmem.adapters.hosts import shown, writing
from devmem.errors import NotStoredError
from devmem.memory import ScopeParts
from devmem.messages import Message, Role
from devmem.stores import Provenance, SourceKind, parse_time

_require("google.adk.memory", package="google-adk", extra="google-adk")

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

_EVENT: Final = "adk.event"
"""Metadata key of the id of the event, or of the entry, that an item was made of."""
_CONTENT: Final = "adk.content"
"""Metadata key of a content that is more than one text."""
_CUSTOM: Final = "adk.custom"
"""Metadata key of an entry's custom metadata."""
_DELETED: Final = "adk.deleted"
"""Metadata key of the id of a deleted event, so that it is not added again with its session; and its mark's source."""
_USER: Final = "user"
"""Author of the user's events."""
_SESSIONS: Final = 1_000
"""Number of sessions of which a service knows what it has added."""


class DevmemMemoryService(BaseMemoryService):  # type: ignore[misc] # not in the environment of the type checkers
    """Long-term memory of ADK agents in a memory that other programs use at the same time.

    A user id is devmem's user, an app name its agent, a session id its session. Adding a session again adds what is new
    in it. What is deleted stays deleted: its id is kept, and its event is left out when its session is added again.
    """

    def __init__(
        self, memory: Memory | None = None, *, limit: int = 10, uri: str | None = None, agents_dir: str | None = None
    ) -> None:
        """Wrap an opened memory, which the caller closes, or open one by its URI, as ADK does for `services.yaml`.

        Args:
            memory: a memory, or a scoped handle, which the service never leaves.
            limit: maximum number of entries that a search returns.
            uri: a scheme of any name before what `devmem.open` takes, such as `devmem://notes.db`,
                `devmem:///home/ann/notes.db` or `devmem://postgresql://...`; `close` closes the memory.
            agents_dir: ADK's folder of agents, where relative paths of a URI start; None is the working directory.

        Raises:
            TypeError: neither a memory nor a URI is given, or both are.
            ValueError: the URI names no place.
        """
        self._opened: Memory | None = None
        if memory is None and uri is not None:
            memory = self._opened = devmem.open(_place_of(uri, agents_dir))
        elif memory is None or uri is not None:
            raise TypeError("name either the memory or its URI")
        self._memory, self._limit = memory, limit
        self._added = OrderedDict[tuple[object, ...], frozenset[tuple[object, ...]]]()

    async def close(self) -> None:
        """Close a memory that was opened by its URI."""
        if self._opened is not None:
            await self._opened.aclose()

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session that have a text and are not there yet."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add events that have a text, each once.

        Args:
            app_name: name of the application.
            user_id: id of the user.
            events: any part of a session.
            session_id: id of the session; None is none.
            custom_metadata: metadata of every event; searches return it with the entries.

        Raises:
            NotStoredError: the memory does not take one of them.
            CollectionError: they cannot be written.
        """
        custom = _json_of(custom_metadata)
        with writing(app_name, self._memory):
            await asyncio.to_thread(self._add_new, events, custom, (app_name, user_id, session_id))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add entries; one with the id of an earlier one is kept once, and one that was deleted is stored again.

        Raises:
            NotStoredError: an entry has no text, or the memory does not take it; nothing is added.
            CollectionError: they cannot be written.
        """
        for entry in memories:
            if not _text(entry.content).strip():
                raise NotStoredError([f"the memory {entry.id or '(without id)'} has no text"])
        messages = [_message_of_entry(entry, _json_of(custom_metadata)) for entry in memories]
        with writing(app_name, self._memory):
            await asyncio.to_thread(self._add_again, messages, app_name, user_id)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what answers a query of what the application knows of the user, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        scope: ScopeParts = {"user": user_id, "agent": app_name}
        search = partial(self._memory.search, query, limit=self._limit, **scope)
        found = await asyncio.to_thread(lambda: shown(app_name, self._memory, query, search, **scope))
        return SearchMemoryResponse(memories=[_entry_of(hit.item) for hit in found])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete an entry by the id that a search returned, with what was derived from it; no id deletes nothing.

        Raises:
            NotStoredError: the store cannot keep the id of a deleted event; nothing is deleted.
            CollectionError: the deletion cannot be written.
        """
        if memory_id:
            with writing(app_name, self._memory):
                await asyncio.to_thread(self._delete, app_name, user_id, memory_id)

    def _add_new(
        self, events: Sequence[Event], custom: Mapping[str, Any], session: tuple[str, str, str | None]
    ) -> None:
        # A session comes whole after each turn: what this service added of it is not looked up again.
        app_name, user_id, session_id = session
        known = self._added.get((*session, repr(custom)), frozenset())
        said = {(event.id, event.timestamp, _text(event.content)): event for event in events}
        new = [_message_of_event(event, custom) for key, event in said.items() if key not in known and key[-1].strip()]
        if new:
            deleted = self._deleted(app_name, user_id)
            kept = [message for message in new if message.metadata.get(_EVENT) not in deleted]
            if kept:
                self._memory.add(kept, user=user_id, agent=app_name, session=session_id)
        self._added[*session, repr(custom)] = known.union(said)
        self._added.move_to_end((*session, repr(custom)))
        while len(self._added) > _SESSIONS:
            self._added.popitem(last=False)

    def _add_again(self, messages: Sequence[Message], app_name: str, user_id: str) -> None:
        if not messages:
            return
        self._memory.add(messages, user=user_id, agent=app_name)
        # Behind them: killed in between, the entries are there and can be deleted again.
        for name in self._deleted(app_name, user_id).intersection(each.metadata.get(_EVENT) for each in messages):
            self._marks(app_name, user_id).forget(where=Filter(metadata={_DELETED: str(name)}))

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        scope: ScopeParts = {"user": user_id, "agent": app_name}
        by_event = Filter(metadata={_EVENT: memory_id})
        if self._memory.count(where=by_event, **scope):
            # First the mark: killed in between, the entry is there and can be deleted again.
            # Without a text, so that no search finds it; with the user's scope, so that forgetting the user reaches it.
            marks = self._marks(app_name, user_id)
            mark = MemoryItem(
                id=uuid4().hex,
                content_summary="",
                metadata={_DELETED: memory_id},
                scope=marks.guard.new_scope(),
                provenance=Provenance(kind=SourceKind.TOOL, name=_DELETED),
            )
            (outcome,) = marks.store.add([mark])
            if not outcome:
                raise NotStoredError([outcome.reason or "the store keeps no item without a text"])
            self._memory.forget(where=by_event, **scope)
            return
        record = self._memory.get(memory_id)
        if record is not None and (record.scope.user, record.scope.agent) == (user_id, app_name):
            self._memory.forget(memory_id, **scope)

    def _marks(self, app_name: str, user_id: str) -> Memory:
        """Return the part of the memory with the marks of what an application deleted."""
        return self._memory.scoped(user=user_id, agent=f"{app_name} (deleted)")

    def _deleted(self, app_name: str, user_id: str) -> frozenset[object]:
        return frozenset(record.metadata.get(_DELETED) for record in self._marks(app_name, user_id))


def _place_of(uri: str, folder: str | None) -> str:
    """Return the place that a URI names, of which a relative path starts in a folder."""
    _, mark, place = uri.partition("://")
    if not mark or not place:
        raise ValueError(f"{uri!r} names no memory: expected a URI such as devmem://notes.db")
    if "://" in place or place == ":memory:":
        return place
    return str(Path(folder or ".") / unquote(place))


def _message_of_event(event: Event, custom: Mapping[str, Any]) -> Message:
    author = event.author or ""
    metadata = {_EVENT: event.id, **_extras(event.content, custom)}
    return Message(
        _text(event.content),
        id=event.id,
        role=Role.USER if author == _USER else Role.ASSISTANT,
        source=author,
        created_at=event.timestamp,
        metadata=metadata,
    )


def _message_of_entry(entry: MemoryEntry, custom: Mapping[str, Any]) -> Message:
    author = entry.author or ""
    message = Message(
        _text(entry.content),
        id=entry.id or "",
        role=Role.USER if author == _USER or entry.content.role == _USER else Role.ASSISTANT,
        source=author,
        created_at=parse_time(entry.timestamp, zone=UTC) if entry.timestamp else None,
    )
    extras = _extras(entry.content, {**_json_of(entry.custom_metadata), **custom})
    return message.with_metadata(**{_EVENT: message.id, **extras})


def _extras(content: types.Content | None, custom: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of what a text, its role and its author do not say."""
    found: dict[str, Any] = {_CUSTOM: dict(custom)} if custom else {}
    parts = [part.model_dump(exclude_none=True).keys() for part in (content and content.parts) or []]
    if content is not None and parts and parts != [{"text"}]:
        found[_CONTENT] = content.model_dump(mode="json", exclude_none=True)
    return found


def _entry_of(record: MemoryItem) -> MemoryEntry:
    """Return the entry of a record, which may be another program's."""
    message = record.message
    said_by_user = message is None or message.is_user_message()
    kept = record.metadata.get(_CONTENT)
    text = record.text if message is None else message.content
    plain = types.Content(role="user" if said_by_user else "model", parts=[types.Part(text=text)])
    custom = record.metadata.get(_CUSTOM)
    return MemoryEntry(
        id=str(record.metadata.get(_EVENT) or record.id),
        content=plain if kept is None else types.Content.model_validate(kept),
        author=message.source or None if message is not None else None,
        timestamp=record.time.isoformat(),
        custom_metadata=dict(custom) if isinstance(custom, Mapping) else {},
    )


def _text(content: types.Content | None) -> str:
    """Return the texts of a content, joined by spaces; the model's thoughts are none."""
    parts = (content.parts if content is not None else None) or []
    return " ".join(part.text for part in parts if part.text and not part.thought)


def _json_of(metadata: Mapping[str, object] | None) -> dict[str, Any]:
    """Return metadata as JSON has it; what it has no form for becomes text."""
    found: dict[str, Any] = from_json(to_json(dict(metadata or {}), fallback=str, inf_nan_mode="strings"))
    return found
