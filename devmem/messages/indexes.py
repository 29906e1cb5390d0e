"""Messages in the order in which they came, with an index for each kind of look-up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from sortedcontainers import SortedList

from devmem.model.message import Message
from devmem.model.message_names import Role


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
