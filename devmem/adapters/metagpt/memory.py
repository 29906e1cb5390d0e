"""MetaGPT's `Memory`, `RoleZeroLongTermMemory` and `LongTermMemory` over stores of devmem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from metagpt.memory.memory import Memory
from metagpt.utils.common import any_to_str
from pydantic import Field, JsonValue, PrivateAttr

import devmem
from devmem import acting_as
from devmem.adapters.hosts import in_thread
from devmem.adapters.metagpt.messages import to_devmem, to_metagpt
from devmem.messages import Message

_HOST: Final = "metagpt"


class News(list[Any]):
    """Messages that are new; it may be awaited too, as what MetaGPT's long-term memory returns."""

    def __await__(self) -> Generator[Any, None, News]:
        """Return the messages; nothing is waited for."""
        yield from ()
        return self


def _path(place: str | Path | None) -> str | None:
    return None if place is None else str(place)


class DevmemMemory(Memory):
    """A role's memory with the methods of MetaGPT's `Memory`, whose messages are in a file that programs share.

    ```python
    role.rc.memory = DevmemMemory(place="team.db", role=role.name)
    ```

    A message is known by its id. Every change is durable when the call returns, and every method reads what is in the
    store then. `storage` and `index`, MetaGPT's fields, follow the changes and the complete reads of this object.
    """

    store_type: ClassVar[str] = "role_zero"
    """Type of the store that keeps the messages."""

    place: str | Path | None = Field(default=None, exclude=True)
    """Path of the file, or `postgresql://...`; None keeps the messages in this process."""
    role: str = Field(default="", exclude=True)
    """Name of the role that the memory belongs to."""
    user: str = Field(default="", exclude=True)
    """User that the memory is for; other users' messages are not in it."""
    session: str = Field(default="", exclude=True)
    """Session that the memory is for."""
    options: dict[str, JsonValue] = Field(default_factory=dict, exclude=True)
    """Further keys of the store's configuration, such as `embedding`."""

    _memory: devmem.Memory | None = PrivateAttr(default=None)
    _owned: bool = PrivateAttr(default=False)
    _kept: Any = PrivateAttr(default=None)
    _seen: dict[str, tuple[Message, Any]] = PrivateAttr(default_factory=dict)
    """Messages of this process by id: as they were stored, and as MetaGPT has them."""

    @classmethod
    def over(cls, memory: devmem.Memory, role: str, **fields: Any) -> Self:
        """Return a role's memory in a memory that is open already, which the caller closes.

        Args:
            memory: of the class's `store_type`; the user and session of a scoped handle are those of the role's memory.
            role: name of the role.
            fields: further fields, such as `ignore_id`.

        Raises:
            TypeError: the memory is of another store type.
        """
        if memory.store.setup.store_type != cls.store_type:
            raise TypeError(f"{cls.__name__} needs a {cls.store_type!r} store, not {memory.store.setup.store_type!r}")
        scope = memory.guard.new_scope()
        made = cls(role=role, user=scope.user or "", session=scope.session or "", **fields)
        made._memory = memory
        return made

    def configuration(self) -> dict[str, JsonValue]:
        """Return the configuration of the store, as a workflow declares it."""
        return {"memory_path": _path(self.place), "recall": "never", **self.options}

    def _open_role(self, store: Any) -> Any:
        """Return the role's memory in a store."""
        return store.role(self.role, user=self.user, session=self.session)

    @property
    def kept(self) -> Any:
        """The role's memory in the store, which is opened when it is first used.

        Raises:
            ConfigError: the fields do not fit the store.
            CollectionError: the file cannot be used.
        """
        if self._kept is None:
            if self._memory is None:
                # Pydantic validates the declaration; the type of a dict's values is its own.
                declaration: Mapping[str, Any] = {"type": self.store_type, "config": self.configuration()}
                self._memory, self._owned = devmem.open(declaration), True
            self._kept = self._open_role(self._memory.store)
            # What MetaGPT restores from its own JSON comes in these fields.
            restored = list(self.storage)
            if restored:
                self._replace([])
                self.add_batch(restored)
        return self._kept

    def close(self) -> None:
        """Close the file that this object opened; it is opened again where it is used again."""
        if self._memory is not None and self._owned:
            self._memory.close()
            self._memory = None
        self._kept = None

    def add(self, message: Any) -> None:
        """Append a message, unless it is known.

        Raises:
            MessageError: it is not a message of MetaGPT's, or has no JSON form.
            CollectionError: it can be kept nowhere.
        """
        self.add_batch([message])

    def add_batch(self, messages: Iterable[Any]) -> None:
        """Append the messages that are not known, all of them or, after an error, none; raises as `add`."""
        given = list(messages)
        said = [self._said(message) for message in given]
        kept = self.kept
        with acting_as(self.role or _HOST, by_default=True):
            kept.add_batch(said)
        for stored, message in zip(said, given, strict=True):
            if stored.id not in self._seen:
                self._seen[stored.id] = (stored, message)
                self._mirror(message)

    def get(self, k: int = 0) -> list[Any]:
        """Return the `k` newest messages, oldest first; 0 means all.

        Raises:
            MessageError: `k` is negative.
            CollectionError: the messages cannot be read.
        """
        return [self._shown(message) for message in self.kept.get(k)] if k else self._all()

    def find_news(self, observed: Iterable[Any], k: int = 0) -> News:
        """Return those observed messages that are not among the `k` newest (0: all), each once and in order."""
        return self._found_news(observed, 0, within=k)

    def _found_news(self, observed: Iterable[Any], k: int, *, within: int) -> News:
        said = [(self._said(message), message) for message in observed]
        by_id = {stored.id: message for stored, message in reversed(said)}
        news = self.kept.find_news([stored for stored, _ in said], k, within=within)
        return News(by_id[stored.id] for stored in news)

    def get_by_role(self, role: str) -> list[Any]:
        """Return the messages of a role as MetaGPT has it, such as `user` or `Product Manager`, oldest first."""
        return [message for message in self._all() if message.role == role]

    def get_by_content(self, content: str) -> list[Any]:
        """Return the messages whose content holds a text, verbatim, oldest first."""
        return [message for message in self._all() if content in message.content]

    def try_remember(self, keyword: str) -> list[Any]:
        """Return `get_by_content(keyword)`."""
        return self.get_by_content(keyword)

    def get_by_action(self, action: object) -> list[Any]:
        """Return the messages that an action caused, oldest first; the list is the caller's."""
        return self.get_by_actions([action])

    def get_by_actions(self, actions: Iterable[object]) -> list[Any]:
        """Return the messages that any of the actions caused, oldest first."""
        names = {any_to_str(action) for action in actions}
        return [message for message in self._all() if message.cause_by in names]

    def get_by_position(self, position: int) -> Any:
        """Return the message at a position: 0 is the oldest, -1 the newest; None where there is none."""
        messages = self._all()
        return messages[position] if -len(messages) <= position < len(messages) else None

    def delete(self, message: Any) -> bool:
        """Forget a message; return whether it was known."""
        stored = self._said(message)
        self._forget_seen(stored.id)
        with acting_as(self.role or _HOST, by_default=True):
            return self.kept.delete(stored.id)

    def delete_newest(self) -> Any:
        """Forget and return the message that was added last; None when there is none."""
        with acting_as(self.role or _HOST, by_default=True):
            newest = self.kept.delete_newest()
        if newest is None:
            return None
        message = self._shown(newest)
        self._forget_seen(newest.id)
        return message

    def clear(self) -> None:
        """Forget everything in this role's memory."""
        with acting_as(self.role or _HOST, by_default=True):
            self.kept.clear()
        self._replace([])

    def count(self) -> int:
        """Count the messages."""
        return self.kept.count()

    def model_dump(self, **arguments: Any) -> dict[str, Any]:
        """Return MetaGPT's form with all messages that are in the store now."""
        self._all()
        form: dict[str, Any] = super().model_dump(**arguments)
        return form

    def model_dump_json(self, **arguments: Any) -> str:
        """Return MetaGPT's form as JSON with all messages that are in the store now."""
        self._all()
        return str(super().model_dump_json(**arguments))

    def _stored(self) -> Iterable[Message]:
        """Return every stored message, oldest first."""
        found: Iterable[Message] = self.kept.history()
        return found

    def _all(self) -> list[Any]:
        """Return every message, oldest first, and bring the fields up to date."""
        stored = list(self._stored())
        shown = [self._shown(message) for message in stored]
        self._seen = {each.id: (each, message) for each, message in zip(stored, shown, strict=True)}
        self._replace(shown)
        return list(shown)

    def _said(self, message: Any) -> Message:
        """Return the stored form of a message; with `ignore_id`, its id is derived from its content."""
        said = to_devmem(message)
        return replace(said, id=said.content_hash()[:32]) if self.ignore_id else said

    def _shown(self, stored: Message) -> Any:
        """Return a stored message as MetaGPT has it: the same object as before, unless it was changed in the store."""
        known = self._seen.get(stored.id)
        if known is not None and _same(known[0], stored):
            return known[1]
        message = to_metagpt(stored)
        self._seen[stored.id] = (stored, message)
        return message

    def _mirror(self, message: Any) -> None:
        self.storage.append(message)
        if message.cause_by:
            self.index[message.cause_by].append(message)

    def _forget_seen(self, message_id: str) -> None:
        known = self._seen.pop(message_id, None)
        if known is not None:
            self._replace([message for message in self.storage if message is not known[1]])

    def _replace(self, messages: list[Any]) -> None:
        self.storage: list[Any] = []
        self.index: defaultdict[str, list[Any]] = defaultdict(list)
        for message in messages:
            self._mirror(message)
        if not messages:
            self._seen = {}


def _same(one: Message, other: Message) -> bool:
    return (one.content, one.metadata, one.instruct_content) == (other.content, other.metadata, other.instruct_content)


class DevmemRoleZeroMemory(DevmemMemory):
    """MetaGPT's `RoleZeroLongTermMemory`: the newest messages, and related older ones when a user requires something.

    It is made with MetaGPT's own arguments; a role, user and session keep memories of one file apart.
    """

    persist_path: str = ".role_memory_data"
    """Folder of the file, where no `place` is given; empty keeps the messages in this process."""
    collection_name: str = "role_zero"
    """Name of the role, where no `role` is given."""
    memory_k: int = 200
    """Messages in the window; older ones are recalled."""
    similarity_top_k: int = 5
    """Maximum number of related messages."""
    use_llm_ranker: bool = False
    """Whether a chat model orders the related messages; `options` names it as `llm_ranker`."""

    def configuration(self) -> dict[str, JsonValue]:
        """Return the configuration of the store, as a workflow declares it."""
        place = _path(self.place) or (f"{self.persist_path}/role_memory.db" if self.persist_path else None)
        made: dict[str, JsonValue] = {"memory_k": self.memory_k, "similarity_top_k": self.similarity_top_k}
        return {"memory_path": place, **made, **({"llm_ranker": {}} if self.use_llm_ranker else {}), **self.options}

    def _open_role(self, store: Any) -> Any:
        return store.role(self.role or self.collection_name, user=self.user, session=self.session)


class DevmemLongTermMemory(DevmemMemory):
    """MetaGPT's `LongTermMemory`: what the role watches is kept for long, and news are what says nothing known.

    Messages of other actions are in this process alone, as in MetaGPT. Without `recover_memory` everything is watched.
    """

    store_type: ClassVar[str] = "long_term"

    rc: Any = Field(default=None, exclude=True)
    """The role's context, whose `watch` names the actions."""

    def configuration(self) -> dict[str, JsonValue]:
        """Return the configuration of the store, as a workflow declares it."""
        return {"memory_path": _path(self.place), **self.options}

    def _open_role(self, store: Any) -> Any:
        scope = devmem.Scope(user=self.user or None, session=self.session or None)
        watch = None if self.rc is None else sorted(self.rc.watch)
        return store.recover(self.role or _HOST, watch, scope=scope)

    def _stored(self) -> Iterable[Message]:
        return self.kept.get()

    def recover_memory(self, role_id: str, rc: Any) -> None:
        """Take up what a role kept, and keep from now on what it watches.

        Args:
            role_id: name of the role; it names no file, and may hold any character.
            rc: the role's context, with `watch`.

        Raises:
            MessageError: the id is blank.
            CollectionError: the file cannot be read.
        """
        self.role, self.rc, self._kept = role_id, rc, None
        self._replace([])
        self._all()

    @property
    def is_initialized(self) -> bool:
        """Whether something was kept for long when the role's memory was recovered."""
        return bool(self.kept.restored)

    def find_news(self, observed: Iterable[Any], k: int = 0) -> News:
        """Return the last `k` (0: all) of those observed messages that say nothing that is known; it may be awaited.

        Known are messages among the `k` newest, and those to which something similar was kept for long.
        """
        return self._found_news(observed, k, within=k)

    async def search_similar(self, message: Any, k: int = 4) -> list[Any]:
        """Return at most `k` kept messages that say the same as a message, the most similar first."""
        return [self._shown(found) for found in await in_thread(self.kept.search_similar)(message.content, k)]

    def persist(self) -> None:
        """Do nothing: what is kept is on the disk when `add` returns."""
