"""Short-term memory: the messages that an agent has seen, in order, each once."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from math import inf
from typing import Any, Final

from devmem.errors import MessageError
from devmem.messages.queue import Dedupe
from devmem.model.message import Message, Role, action_name, action_names, role_of
from devmem.model.message_json import dump_message, json_text, load_messages, read_json
from devmem.model.twins import as_async

_LOG: Final = logging.getLogger(__name__)

IGNORED_ID: Final = "0"
"""Id of every message in a memory that MetaGPT kept with `ignore_id`."""


class ShortTermMemory:
    """Messages in the order in which they were added, each once; returned lists belong to the caller.

    It is safe to use from several threads. Messages are found by their id and from the newest at once; a look-up by
    action, role, speaker, time or content reads every message.
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
        self._messages: OrderedDict[str, Message] = OrderedDict()
        self._contents: dict[str, str] = {}

    def add(self, message: Message) -> bool:
        """Append a message; return whether it was new.

        Raises:
            MessageError: it is not a message.
        """
        key = self._key(_checked(message))
        with self._lock:
            if self._known(message.id, key) is not None:
                return False
            self._put(message, key)
            if self.max_messages is not None:
                self.trim(keep=self.max_messages)
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
        key = self._key(_checked(message))
        with self._lock:
            if (older := self._messages.get(message.id)) is None:
                return False
            self._forget_content(older)
            self._put(message, key)
            return True

    def __contains__(self, message: object) -> bool:
        """Whether a message, or the message with an id, is known."""
        if not isinstance(message, Message | str):
            return False
        key = self._key(message) if isinstance(message, Message) else ""
        with self._lock:
            return self._known(message if isinstance(message, str) else message.id, key) is not None

    def find_news(self, observed: Iterable[Message], k: int = 0, *, within: int = 0) -> list[Message]:
        """Return those observed messages that are not known, each once and in order; nothing is added.

        Args:
            observed: incoming messages.
            k: maximum number of messages returned, the last ones; 0 returns all.
            within: number of newest messages that count as known, what MetaGPT's `Memory` calls `k`; 0 means all.

        Raises:
            MessageError: one is not a message, or a number is negative.
        """
        check_count(k)
        check_count(within)
        keyed = [(self._key(_checked(message)), message) for message in observed]
        ids: set[str] = set()
        contents: set[str] = set()
        news: list[Message] = []
        with self._lock:
            newest = set(islice(reversed(self._messages), within)) if within else self._messages.keys()
            unknown = [(key, message) for key, message in keyed if self._known(message.id, key) not in newest]
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
        check_count(k)
        with self._lock:
            return [*islice(reversed(self._messages.values()), k or None)][::-1]

    def get_by_id(self, message_id: str) -> Message | None:
        """Return the message with an id; None when it is not known."""
        return self._messages.get(message_id)

    def get_by_position(self, position: int) -> Message | None:
        """Return the message at a position: 0 is the oldest, -1 the newest; None where there is none."""
        with self._lock:
            messages, at = self._messages.values(), position if position >= 0 else -1 - position
            return next(islice(reversed(messages) if position < 0 else iter(messages), at, None), None)

    def get_by_role(self, role: Role | str) -> list[Message]:
        """Return the messages of a role, oldest first.

        Raises:
            MessageError: there is no such role; a speaker is found with `get_by_source`.
        """
        wanted = role_of(role)
        return self._those(lambda message: message.role is wanted)

    def get_by_source(self, source: object) -> list[Message]:
        """Return the messages of a speaker (`action_name`), oldest first."""
        wanted = action_name(source)
        return self._those(lambda message: message.source == wanted)

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
        names = frozenset(action_names(actions))
        return self._those(lambda message: message.cause_by in names)

    def actions(self) -> list[str]:
        """Return the names of the actions that caused messages; the empty name stands for none."""
        return list(dict.fromkeys(message.cause_by for message in self.get()))

    def get_by_time(self, *, after: float = -inf, before: float = inf) -> list[Message]:
        """Return the messages made from `after` until before `before` (seconds since the epoch), in the order added."""
        return self._those(lambda message: after <= message.created_at < before)

    def get_by_content(self, text: str) -> list[Message]:
        """Return the messages whose content holds a text, verbatim, oldest first."""
        return self._those(lambda message: text in message.content)

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
        found: dict[str, list[Message]] = {}
        for message in self._those(lambda message: message.cause_by != ""):
            found.setdefault(message.cause_by, []).append(message)
        return found

    def count(self) -> int:
        """Count the messages."""
        return len(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __bool__(self) -> bool:
        """Return True: an empty memory is not a missing one."""
        return True

    def delete(self, message: Message | str) -> bool:
        """Forget a message, or the message with an id; return whether it was known."""
        return self._drop(message if isinstance(message, str) else message.id)

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
        if keep is not None:
            check_count(keep)
        with self._lock:
            old = [] if before is None else self.get_by_time(before=before)
            count = sum(self._drop(message.id) for message in old)
            while keep is not None and len(self._messages) > keep:
                count += self._drop(next(iter(self._messages)))
            return count

    def clear(self) -> int:
        """Forget everything; return the number of messages."""
        with self._lock:
            count = len(self._messages)
            self._messages.clear()
            self._contents.clear()
            return count

    aadd = as_async(add)
    aadd_batch = as_async(add_batch)
    aupdate = as_async(update)
    afind_news = as_async(find_news)
    aget = as_async(get)
    adelete = as_async(delete)
    adelete_newest = as_async(delete_newest)
    aclear = as_async(clear)

    def _key(self, message: Message) -> str:
        """Return the content hash by which a message is known beside its id; empty where the id alone counts."""
        return message.content_hash() if self.dedupe == "content" else ""

    def _known(self, message_id: str, key: str) -> str | None:
        """Return the id of the message with an id, or else with a content hash."""
        return message_id if message_id in self._messages else self._contents.get(key)

    def _put(self, message: Message, key: str) -> None:
        self._messages[message.id] = message
        if key:
            self._contents.setdefault(key, message.id)

    def _drop(self, message_id: str) -> bool:
        # `delete` of a subclass may reach further than this memory, unlike trimming.
        with self._lock:
            found = self._messages.pop(message_id, None)
            if found is not None:
                self._forget_content(found)
            return found is not None

    def _forget_content(self, message: Message) -> None:
        if (key := self._key(message)) and self._contents.get(key) == message.id:
            del self._contents[key]

    def _those(self, wanted: Callable[[Message], bool]) -> list[Message]:
        with self._lock:
            return [message for message in self._messages.values() if wanted(message)]

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


def check_count(count: int) -> None:
    """Raise `MessageError` where a number of messages is negative."""
    if count < 0:
        raise MessageError(f"a number of messages cannot be negative: {count}")
