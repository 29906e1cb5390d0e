"""Messages in the order in which they came, and found by what they are; a look-up costs what it gives."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from devmem.messages.sorted_row import SortedRow
from devmem.model.message import Message
from devmem.model.message_names import Role


class _ByKey:
    """The numbers of the messages of each key; asking for a key does not make it."""

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
    """Numbered messages with their indexes, always of one mind. Not safe for threads by itself."""

    def __init__(self, *, by_content: bool) -> None:
        self._by_content = by_content
        self._messages: dict[int, Message] = {}
        self._next = 0
        self._order: SortedRow[int] = SortedRow()
        self._times: SortedRow[tuple[float, int]] = SortedRow()
        self._ids: dict[str, int] = {}
        self._contents: dict[str, int] = {}
        self._actions, self._roles, self._sources = _ByKey(), _ByKey(), _ByKey()

    def __len__(self) -> int:
        return len(self._messages)

    def key(self, message: Message) -> str:
        """Give what, beside the id, makes a message known; empty when the id alone counts."""
        return message.content_hash() if self._by_content else ""

    def number_of(self, message_id: str, key: str = "") -> int | None:
        """Give the number of the message of an id or of a content."""
        found = self._ids.get(message_id)
        return self._contents.get(key) if found is None and key else found

    def add(self, message: Message, key: str) -> None:
        """Put a message that is not known at the end."""
        number = self._next
        self._next += 1
        self._order.add(number)
        self._enter(number, message, key)

    def replace(self, number: int, message: Message, key: str) -> None:
        """Put a message in the place of another."""
        self._leave(number)
        self._enter(number, message, key)

    def remove(self, number: int) -> Message:
        """Take a message out."""
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

    def give(self, numbers: Iterable[int]) -> list[Message]:
        """Give the messages of numbers, in the order in which they came."""
        messages = self._messages
        return [messages[number] for number in sorted(numbers)]

    def slice(self, start: int, stop: int) -> list[Message]:
        """Give the messages at positions, counted from the oldest."""
        return [self._messages[number] for number in self._order.between(start, stop)]

    def ends(self, *, keep: int) -> list[int]:
        """Give the numbers of all but the `keep` newest messages."""
        return self._order.between(0, max(0, len(self) - keep))

    def by_action(self, *actions: str) -> list[Message]:
        """Give the messages that one of the actions caused."""
        return self.give(number for action in set(actions) for number in self._actions.get(action))

    def by_role(self, role: Role) -> list[Message]:
        """Give the messages of a role."""
        return self.give(self._roles.get(role))

    def by_source(self, source: str) -> list[Message]:
        """Give the messages of a speaker."""
        return self.give(self._sources.get(source))

    def by_time(self, after: float, before: float) -> list[int]:
        """Give the numbers of the messages made from one time on and before another."""
        start, stop = (self._times.position((time, -1)) for time in (after, before))
        return [number for _, number in self._times.between(start, stop)]

    def actions(self) -> list[str]:
        """Name the actions that caused the messages."""
        return self._actions.names()
