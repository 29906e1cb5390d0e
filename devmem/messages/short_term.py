"""Short-term memory: the messages that an agent has seen, in order, each once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final

from sortedcontainers import SortedList

from devmem.errors import MessageError
from devmem.messages.queue import Dedupe, MessageMemory
from devmem.model.message import Message, Role, action_name, action_names, role_of
from devmem.model.message_json import dump_message, json_text, load_messages, read_json


class _ByKey:
    """Numbers of the messages of each key; a look-up adds no key."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, dict[int, None]] = {}

    def add(self, key: Hashable, number: int) -> None:
        self._numbers.setdefault(key, {})[number] = None

    def remove(self, key: Hashable, number: int) -> None:
        numbers = self._numbers[key]
        del numbers[number]
        if not numbers:
            del self._numbers[key]

    def get(self, key: Hashable) -> Iterable[int]:
        return self._numbers.get(key, ())

    def names(self) -> list[str]:
        return [str(key) for key in self._numbers]


class MessageIndex:
    """Numbered messages and their indexes, which always agree. Not safe for threads by itself."""

    def __init__(self, *, by_content: bool) -> None:
        self._by_content = by_content
        self._messages: dict[int, Message] = {}
        self._next = 0
        self._order: SortedList[int] = SortedList()
        self._times: SortedList[tuple[float, int]] = SortedList()
        self._ids: dict[str, int] = {}
        self._contents: dict[str, int] = {}
        self._actions, self._roles, self._sources = _ByKey(), _ByKey(), _ByKey()

    def __len__(self) -> int:
        return len(self._messages)

    def key(self, message: Message) -> str:
        """Return the content hash by which a message is known beside its id; empty when the id alone counts."""
        return message.content_hash() if self._by_content else ""

    def number_of(self, message_id: str, key: str = "") -> int | None:
        """Return the number of the message with an id, or else with a content hash."""
        found = self._ids.get(message_id)
        return self._contents.get(key) if found is None and key else found

    def first_of_newest(self, count: int) -> int:
        """Return the lowest number among the `count` newest messages; 0 when there are no more than these."""
        return self._order[-count] if 0 < count <= len(self._order) else 0

    def add(self, message: Message, key: str) -> None:
        """Append a message that is not known."""
        number = self._next
        self._next += 1
        self._order.add(number)
        self._enter(number, message, key)

    def replace(self, number: int, message: Message, key: str) -> None:
        """Replace a message by another in its place."""
        self._leave(number)
        self._enter(number, message, key)

    def remove(self, number: int) -> Message:
        """Remove and return a message."""
        self._order.remove(number)
        return self._leave(number)

    def _enter(self, number: int, message: Message, key: str) -> None:
        self._messages[number] = message
        self._ids[message.id] = number
        if key:
            self._contents.setdefault(key, number)
        self._times.add((message.created_at, number))
        self._actions.add(message.cause_by, number)
        self._roles.add(message.role, number)
        self._sources.add(message.source, number)

    def _leave(self, number: int) -> Message:
        message = self._messages.pop(number)
        del self._ids[message.id]
        if (key := self.key(message)) and self._contents.get(key) == number:
            del self._contents[key]
        self._times.remove((message.created_at, number))
        self._actions.remove(message.cause_by, number)
        self._roles.remove(message.role, number)
        self._sources.remove(message.source, number)
        return message

    def messages(self, numbers: Iterable[int]) -> list[Message]:
        """Return the messages with these numbers, in the order in which they came."""
        messages = self._messages
        return [messages[number] for number in sorted(numbers)]

    def slice(self, start: int, stop: int) -> list[Message]:
        """Return the messages at positions, counted from the oldest."""
        return [self._messages[number] for number in self._order[start:stop]]

    def at(self, position: int) -> Message:
        """Return the message at a position, counted from the oldest; it must exist."""
        return self._messages[self._order[position]]

    def ends(self, *, keep: int) -> list[int]:
        """Return the numbers of all but the `keep` newest messages."""
        return self._order[: max(0, len(self) - keep)]

    def by_action(self, *actions: str) -> list[Message]:
        """Return the messages that one of the actions caused."""
        return self.messages(number for action in set(actions) for number in self._actions.get(action))

    def by_role(self, role: Role) -> list[Message]:
        """Return the messages of a role."""
        return self.messages(self._roles.get(role))

    def by_source(self, source: str) -> list[Message]:
        """Return the messages of a speaker."""
        return self.messages(self._sources.get(source))

    def by_time(self, after: float, before: float) -> list[int]:
        """Return the numbers of the messages made from `after` until before `before` (seconds since the epoch)."""
        return [number for _, number in self._times.irange((after, -1), (before, -1))]

    def actions(self) -> list[str]:
        """Return the names of the actions that caused the messages."""
        return self._actions.names()


_LOG: Final = logging.getLogger(__name__)

IGNORED_ID: Final = "0"
"""Id of every message in a memory that MetaGPT kept with `ignore_id`."""


class ShortTermMemory(MessageMemory):
    """Messages in the order in which they were added, each once; returned lists belong to the caller.

    It is safe to use from several threads. The cost of a look-up by id, position, action, role, speaker or time depends
    on the number of messages that it returns, not on the number of all; `get_by_content` reads every message.
    """

    def __init__(self, *, dedupe: Dedupe = "id", max_messages: int | None = None) -> None:
        """Make an empty memory.

        Args:
            dedupe: what makes a message known: its id, or with `content` also what was said (`Message.content_hash`).
            max_messages: maximum number of messages, the oldest go first; None keeps all.

        Raises:
            MessageError: an argument is out of range.
        """
        if dedupe not in ("id", "content"):
            raise MessageError(f"`dedupe` is `id` or `content`, not {dedupe!r}")
        if max_messages is not None and max_messages < 1:
            raise MessageError(f"`max_messages` is at least 1, or None for all, not {max_messages!r}")
        self.dedupe: Final[Dedupe] = dedupe
        self.max_messages: Final = max_messages
        self._lock = threading.RLock()
        self._index = MessageIndex(by_content=dedupe == "content")

    def add(self, message: Message) -> bool:
        """Append a message; return whether it was new.

        Raises:
            MessageError: it is not a message.
        """
        key = self._index.key(_checked(message))
        with self._lock:
            if self._index.number_of(message.id, key) is not None:
                return False
            self._index.add(message, key)
            if self.max_messages is not None:
                self._forget(self._index.ends(keep=self.max_messages))
            return True

    def add_batch(self, messages: Iterable[Message]) -> list[Message]:
        """Append messages; return those that were new, in order.

        Raises:
            MessageError: one is not a message; none was added.
        """
        checked = [_checked(message) for message in messages]
        with self._lock:
            return [message for message in checked if self.add(message)]

    def update(self, message: Message) -> bool:
        """Put a message in the place of the one with its id, as after `with_metadata`; return whether there was one.

        Raises:
            MessageError: it is not a message.
        """
        key = self._index.key(_checked(message))
        with self._lock:
            number = self._index.number_of(message.id)
            if number is not None:
                self._index.replace(number, message, key)
            return number is not None

    def __contains__(self, message: object) -> bool:
        """Whether a message, or the message with an id, is known."""
        if not isinstance(message, Message | str):
            return False
        key = self._index.key(message) if isinstance(message, Message) else ""
        with self._lock:
            return self._index.number_of(message if isinstance(message, str) else message.id, key) is not None

    def find_news(self, observed: Iterable[Message], k: int = 0, *, within: int = 0) -> list[Message]:
        """Return those observed messages that are not known, each once and in order; nothing is added.

        Args:
            observed: incoming messages.
            k: maximum number of messages returned, the last ones; 0 returns all.
            within: number of newest messages that count as known, what MetaGPT's `Memory` calls `k`; 0 means all.

        Raises:
            MessageError: one is not a message, or a number is negative.
        """
        _check_count(k)
        _check_count(within)
        keyed = [(self._index.key(_checked(message)), message) for message in observed]
        with self._lock:
            first = self._index.first_of_newest(within) if within else 0
            numbered = [(key, message, self._index.number_of(message.id, key)) for key, message in keyed]
        unknown = [(key, message) for key, message, number in numbered if number is None or number < first]
        ids: set[str] = set()
        contents: set[str] = set()
        news: list[Message] = []
        for key, message in unknown:
            if message.id not in ids and key not in contents:
                news.append(message)
            ids.add(message.id)
            contents.update({key} if key else ())
        return news[-k:] if k else news

    def get(self, k: int = 0) -> list[Message]:
        """Return the `k` newest messages, oldest first; 0 gives all.

        Raises:
            MessageError: `k` is negative.
        """
        _check_count(k)
        with self._lock:
            count = len(self._index)
            return self._index.slice(max(0, count - k) if k else 0, count)

    def get_by_id(self, message_id: str) -> Message | None:
        """Return the message with an id; None when it is not known."""
        with self._lock:
            number = self._index.number_of(message_id)
            return None if number is None else self._index.messages([number])[0]

    def get_by_position(self, position: int) -> Message | None:
        """Return the message at a position: 0 is the oldest, -1 the newest; None where there is none."""
        with self._lock:
            count = len(self._index)
            at = position + count if position < 0 else position
            return self._index.at(at) if 0 <= at < count else None

    def get_by_role(self, role: Role | str) -> list[Message]:
        """Return the messages of a role, oldest first.

        Raises:
            MessageError: there is no such role; a speaker is found with `get_by_source`.
        """
        with self._lock:
            return self._index.by_role(role_of(role))

    def get_by_source(self, source: object) -> list[Message]:
        """Return the messages of a speaker (`action_name`), oldest first."""
        with self._lock:
            return self._index.by_source(action_name(source))

    def get_by_action(self, action: object) -> list[Message]:
        """Return the messages that an action (`action_name`) caused, oldest first; the empty name stands for none.

        Raises:
            TypeError: the action is None.
        """
        if action is None:
            raise TypeError("None is not an action; `get_by_action('')` returns the messages that no action caused")
        return self.get_by_actions([action])

    def get_by_actions(self, actions: object) -> list[Message]:
        """Return the messages that any of the actions caused, oldest first; a string is one action."""
        names = action_names(actions)
        with self._lock:
            return self._index.by_action(*names)

    def actions(self) -> list[str]:
        """Return the names of the actions that caused messages; the empty name stands for none."""
        with self._lock:
            return self._index.actions()

    def get_by_time(self, *, after: float = -inf, before: float = inf) -> list[Message]:
        """Return the messages made from `after` until before `before` (seconds since the epoch), in the order added."""
        with self._lock:
            return self._index.messages(self._index.by_time(after, before))

    def get_by_content(self, text: str) -> list[Message]:
        """Return the messages whose content holds a text, verbatim, oldest first."""
        return [message for message in self.get() if text in message.content]

    def try_remember(self, keyword: str) -> list[Message]:
        """Return `get_by_content(keyword)`: MetaGPT's other name for it."""
        return self.get_by_content(keyword)

    @property
    def storage(self) -> list[Message]:
        """All messages, oldest first, under MetaGPT's name; a copy, which `add` and `delete` do not follow."""
        return self.get()

    @property
    def index(self) -> dict[str, list[Message]]:
        """The messages of each action, oldest first, under MetaGPT's name; a copy, without those of no action."""
        with self._lock:
            return {action: self._index.by_action(action) for action in self._index.actions() if action}

    def count(self) -> int:
        """Count the messages."""
        return len(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __bool__(self) -> bool:
        """Return True: an empty memory is not a missing one."""
        return True

    def delete(self, message: Message | str) -> bool:
        """Forget a message, or the message with an id; return whether it was known."""
        with self._lock:
            number = self._index.number_of(message if isinstance(message, str) else message.id)
            return number is not None and self._forget([number]) == 1

    def delete_newest(self) -> Message | None:
        """Forget and return the message that was added last; None when there is none."""
        with self._lock:
            newest = self.get_by_position(-1)
            if newest is not None:
                self.delete(newest)
            return newest

    def trim(self, *, keep: int | None = None, before: float | None = None) -> int:
        """Forget all but the `keep` messages added last, and those made before a time (seconds since the epoch).

        Return the number of forgotten messages.

        Raises:
            MessageError: `keep` is negative.
        """
        with self._lock:
            forgotten = 0
            if before is not None:
                forgotten += self._forget(self._index.by_time(-inf, before))
            if keep is not None:
                _check_count(keep)
                forgotten += self._forget(self._index.ends(keep=keep))
            return forgotten

    def clear(self) -> int:
        """Forget everything; return the number of messages."""
        with self._lock:
            count = len(self._index)
            self._index = MessageIndex(by_content=self.dedupe == "content")
            return count

    def _forget(self, numbers: Sequence[int]) -> int:
        for number in numbers:
            self._index.remove(number)
        return len(numbers)

    def dump(self) -> str:
        """Return everything as JSON: the settings, and the messages with their classes.

        Raises:
            MessageError: a message has no JSON form.
        """
        messages = [dump_message(message) for message in self.get()]
        return json_text({"dedupe": self.dedupe, "max_messages": self.max_messages, "messages": messages})

    @staticmethod
    def load(data: str | bytes) -> ShortTermMemory:
        """Return the memory that `dump` wrote, or MetaGPT's (`storage`, `ignore_id`).

        Raises:
            MessageError: it is neither, or some elements are not messages; the error names each.
        """
        raw: Any = read_json(data)
        if not isinstance(raw, dict) or not ({"messages", "storage"} & raw.keys()):
            raise MessageError("not a memory: it has neither `messages` nor, as MetaGPT's, `storage`")
        messages = load_messages(raw["messages"] if "messages" in raw else raw["storage"])
        if raw.get("ignore_id"):
            messages = [replace(each, id="") if each.id == IGNORED_ID else each for each in messages]
        dedupe: Dedupe = raw.get("dedupe") or ("content" if raw.get("ignore_id") else "id")
        limit = raw.get("max_messages")
        if not isinstance(limit, int | None):
            raise MessageError(f"`max_messages` is a whole number or null, not {limit!r}")
        memory = ShortTermMemory(dedupe=dedupe, max_messages=limit)
        if again := len(messages) - len(memory.add_batch(messages)):
            _LOG.warning("%d message(s) stand twice in the loaded data; each is kept once", again)
        return memory


def _checked(message: Message) -> Message:
    if not isinstance(message, Message):
        raise MessageError(f"a memory takes messages, not {type(message).__name__}")
    return message


def _check_count(count: int) -> None:
    if count < 0:
        raise MessageError(f"a number of messages cannot be negative: {count}")
