"""agentUniverse's memory storage over a memory: messages of a session and an agent, found by text and by meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from agentuniverse.agent.memory.memory_storage.memory_storage import MemoryStorage
from agentuniverse.agent.memory.message import Message
from pydantic import Field, JsonValue, PrivateAttr

import devmem
from devmem.adapters.hosts import collection_of, kept_message, scoped_id, shown, writing
from devmem.messages import Message as Said
from devmem.messages import Role
from devmem.storage import Condition, Order, Unique, one_of
from devmem.stores import parse_time

HOST: Final = "agentuniverse"
FORM: Final = "agentuniverse"
"""Metadata key of a message's own fields."""
TOP_K: Final = 10
"""Number of messages of a call that names none."""
_ROLES: Final[Mapping[str, Role]] = {
    "human": Role.USER,
    "user": Role.USER,
    "input": Role.USER,
    "system": Role.SYSTEM,
    "tool": Role.TOOL,
}


class MessageStorage(MemoryStorage):
    """Base of the storages: the memory that they open, and how a component names it."""

    store_type: ClassVar[str] = "simple"
    """Type of the store that keeps the messages."""
    needs_type: ClassVar[bool] = False
    """Whether a store of another type will not do."""

    name: str | None = "devmem_memory_storage"
    description: str | None = "Messages in a file that other programs use at the same time"
    place: str | Path | None = None
    """Path of the file, or `postgresql://...`; None keeps the messages in this process."""
    user: str | None = None
    """User whom the messages belong to; None are unscoped ones."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Further keys of the store's configuration, such as `embedding` and `ttl`."""

    _opened: devmem.Memory | None = PrivateAttr(default=None)
    _owned: bool = PrivateAttr(default=False)

    @classmethod
    def over(cls, memory: devmem.Memory, **fields: Any) -> Self:
        """Return a storage over a memory that is open already, or a scoped handle; the caller closes it.

        Raises:
            TypeError: the memory is of another store type, or keeps no collection.
        """
        collection_of(memory, "a memory storage")
        if cls.needs_type and memory.store.setup.store_type != cls.store_type:
            raise TypeError(f"{cls.__name__} needs a {cls.store_type!r} store")
        made = cls(**fields)
        made._opened = memory
        return made

    @property
    def memory(self) -> devmem.Memory:
        """The memory, which is opened when it is first used.

        Raises:
            ConfigError: the options do not fit the store.
            CollectionError: the file cannot be used.
        """
        if self._opened is None:
            config = {"memory_path": None if self.place is None else str(self.place), **self.options}
            whole = devmem.open({"type": self.store_type, "config": config})
            self._opened, self._owned = whole, True
        return self._opened if self.user is None or not self._owned else self._opened.scoped(user=self.user)

    def __deepcopy__(self, _: object) -> Self:
        """Return the storage itself, as `create_copy` does: an open file is not copied."""
        return self

    def close(self) -> None:
        """Close the file that this object opened; it is opened again where it is used again."""
        if self._opened is not None and self._owned:
            self._opened.close()
            self._opened = None

    def _initialize_by_component_configer(self, memory_storage_config: Any) -> Self:
        """Take the fields of a component's YAML."""
        super()._initialize_by_component_configer(memory_storage_config)
        for key in ("place", "user", "options"):
            given = getattr(memory_storage_config, key, None)
            if given is not None:
                setattr(self, key, given)
        return self


class DevmemMemoryStorage(MessageStorage):
    """Messages of sessions and agents, each once by its id; a message without one is a new message each time.

    It belongs in the place of agentUniverse's ram, SQLAlchemy, Chroma and Qdrant storages.
    """

    def add(
        self,
        message_list: Sequence[Message],
        session_id: str | None = None,
        agent_id: str | None = None,
        **_: object,
    ) -> None:
        """Append messages, all of them or, after an error, none; they are left unchanged.

        Raises:
            MessageError: one has a value without a JSON form.
            CollectionError: they cannot be written.
        """
        if not message_list:
            return
        memory, store = self.memory, collection_of(self.memory, "a memory storage")
        scope = replace(memory.guard.new_scope(), session=session_id or None, agent=agent_id or None)
        items = [_item_of(message, scope, store.setup.clock()) for message in message_list]
        known = {item.id for item in store.get([item.id for item in items])}
        with writing(HOST, memory):
            store.store_items([item for item in items if item.id not in known], unique=Unique.ID)

    def get(
        self,
        session_id: str | None = None,
        agent_id: str | None = None,
        top_k: int = TOP_K,
        input: object = "",
        source: str | None = None,
        type: str | Sequence[str] | None = None,
        **_: object,
    ) -> list[Message]:
        """Return the newest messages, or with an `input` those that answer it best; oldest first.

        Args:
            session_id: of this session; none means of all.
            agent_id: of this agent; none means of all.
            top_k: maximum number of messages.
            input: text that is searched for, by words and, with an `embedding`, by meaning; what is not text is not.
            source: who said it.
            type: type of the messages, or several.

        Raises:
            CollectionError: the messages cannot be read.
        """
        if top_k <= 0:
            return []
        wanted: dict[str, str | Condition] = {f"{FORM}.kept": "yes"}
        if source:
            wanted[f"{FORM}.source"] = source
        if type:
            wanted[f"{FORM}.type"] = one_of(*([type] if isinstance(type, str) else type))
        where, memory = devmem.Filter(metadata=wanted), self.memory
        scope: Any = {"session": session_id or None, "agent": agent_id or None}
        if isinstance(input, str) and input.strip():
            hits = shown(HOST, memory, input, lambda: memory.search(input, limit=top_k, where=where, **scope), **scope)
            found = [hit.item for hit in hits]
            order = {item.id: at for at, item in enumerate(found)}
            found.sort(key=lambda item: (item.event_time or item.created_at, -order[item.id]))
        else:
            store = collection_of(memory, "a memory storage")
            found = store.recent(top_k, memory.guard.matching(where, **scope), order=Order.EVENT)[::-1]
        return [message_of(item) for item in found]

    def delete(self, session_id: str | None = None, agent_id: str | None = None, **_: object) -> None:
        """Erase the messages of a session, of an agent, or of an agent in a session; without either none.

        A blank name, such as that of an unset variable, matches no one: nothing is erased.

        Raises:
            CollectionError: they cannot be deleted.
        """
        named = [name for name in (session_id, agent_id) if name is not None]
        if not named or not all(name.strip() for name in named):
            return
        kept = devmem.Filter(metadata={f"{FORM}.kept": "yes"})
        where = self.memory.guard.matching(kept, session=session_id, agent=agent_id)
        with writing(HOST, self.memory):
            collection_of(self.memory, "a memory storage").erase(where=where)


def _item_of(message: Message, scope: devmem.Scope, now: float) -> devmem.MemoryItem:
    """Return the item of a message; the same id in another scope is another message."""
    item = kept_message(_said(message), scope, now, {FORM: form_of(message)})
    named = scoped_id([message.id], scope) if message.id else item.id
    return replace(item, id=named, event_time=time_of(message, now))


def _said(message: Message) -> Said:
    """Return a message with the text that is searched, and the role by which it is trusted."""
    content = message.content if message.content is not None else ""
    if not isinstance(content, str):
        texts = (part if isinstance(part, str) else str(part.get("text") or "") for part in content)
        content = "\n".join(filter(None, texts))
    return Said(content, role=_ROLES.get(str(message.type), Role.ASSISTANT), source=message.source or "")


def form_of(message: Message) -> dict[str, JsonValue]:
    """Return what a message has beside its text, as JSON; times become texts, and are listed.

    Raises:
        ValueError: a value has no JSON form.
    """
    times = sorted(key for key, value in (message.metadata or {}).items() if isinstance(value, datetime))
    form: dict[str, Any] = {
        "kept": "yes",
        "id": message.id,
        "type": message.type,
        "source": message.source,
        "content": None if isinstance(message.content, str) else message.content,
        "metadata": message.metadata,
        "times": times,
    }
    try:
        made: dict[str, JsonValue] = json.loads(json.dumps(form, default=datetime.isoformat))
    except TypeError as error:
        raise ValueError(f"message {message.id!r} has no JSON form: {error}") from error
    return made


def message_of(item: devmem.MemoryItem) -> Message:
    """Return the message that an item keeps."""
    form: Any = item.metadata[FORM]
    content = form["content"]
    if content is None:
        snapshot = item.input_snapshot or item.output_snapshot
        content = snapshot.text if snapshot is not None else item.content_summary
    return Message(
        id=form["id"] or item.id,
        type=form["type"],
        source=form["source"],
        content=content,
        metadata=metadata_of(form),
    )


def metadata_of(form: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a message's metadata as they were given."""
    if form["metadata"] is None:
        return None
    times = {key: datetime.fromisoformat(form["metadata"][key]) for key in form["times"]}
    return {**form["metadata"], **times}


def time_of(message: Message, now: float) -> float:
    """Return when a message was said, in seconds since the epoch: what its metadata say, or else now."""
    metadata = message.metadata or {}
    given = metadata.get("timestamp") or metadata.get("gmt_created")
    return parse_time(given) if given else now
