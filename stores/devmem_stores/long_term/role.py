"""One role's memory: its newest messages at hand, watched messages kept for long."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from devmem import MemoryItem, Scope
from devmem.messages import (
    Message,
    ShortTermMemory,
    action_names,
    dump_message,
    item_to_message,
    message_to_item,
    readable_text,
)
from devmem.stores import WriteStatus, as_async
from devmem.text import shorten
from devmem_stores.long_term.config import watches

if TYPE_CHECKING:
    from devmem_stores.long_term.store import LongTermMemory


def item_id(scope: Scope, message_id: str) -> str:
    """Return the id of a message's item in one role's memory: the same message may be in several."""
    return sha256(f"{_owner(scope)}\x1e{message_id}".encode()).hexdigest()[:32]


@lru_cache(maxsize=1024)
def _owner(scope: Scope) -> str:
    parts = (getattr(scope, each.name) for each in fields(scope))
    return "\x1f".join("" if part is None else f"={part}" for part in parts)


def item_of(
    message: Message,
    scope: Scope,
    *,
    stored_at: float,
    max_length: int,
    by_content: bool,
) -> MemoryItem:
    """Return the item of a message.

    Args:
        message: the message to keep.
        scope: owner of the memory.
        stored_at: seconds since the epoch.
        max_length: maximum number of characters of the summary.
        by_content: whether equal content makes two items the same, instead of equality in every part of the message.

    Raises:
        MessageError: the message has no JSON form.
    """
    item = message_to_item(
        message,
        item_id=item_id(scope, message.id),
        scope=scope,
        summary=shorten(readable_text(message), max_length),
        stored_at=stored_at,
    )
    whole = json.dumps(dump_message(message)).encode()
    return replace(item, content_hash=message.content_hash() if by_content else sha256(whole).hexdigest())


def whole_text(item: MemoryItem) -> str:
    """Return the text of the message that an item keeps, or else its summary."""
    return item_to_message(item).text() if item.is_message else item.content_summary


def same_words(one: str, other: str) -> bool:
    """Whether two texts differ in white space and case at most."""
    return one.split() == other.split() or one.casefold().split() == other.casefold().split()


class Kept(NamedTuple):
    """Where a message is kept."""

    item_id: str
    scope: Scope


class LongTermRole(ShortTermMemory):
    """A short-term memory whose watched messages are kept for long; made by `LongTermMemory.recover`.

    Looking up (`get`, `get_by_action`, ...) is about what is at hand: the newest `short_term` messages. What leaves
    there because of its age, or by `trim`, stays in the long-term memory; what is deleted leaves both. A method that
    reaches the long-term memory raises `CollectionError` when that cannot do its work, and has changed nothing then.
    """

    def __init__(self, store: LongTermMemory, scope: Scope) -> None:
        super().__init__(dedupe=store.config.dedupe, max_messages=store.config.short_term)
        self.scope = scope
        """Whose memory it is; `agent` is the role."""
        self._store = store
        self._watch = store.config.watch
        self._recalled: dict[str, Kept] = {}
        """Where the messages taken back are kept, by id: some may be of a narrower scope, as one user's."""
        # They are kept already, so only the short-term memory takes them.
        for kept, message in store.recall(scope, store.config.short_term):
            self._recalled[message.id] = kept
            super().add(message)
        self.restored: Final = len(self._recalled)
        """Number of kept messages that were taken back when the role was recovered; 0 is a role without a memory."""

    def watch(self, actions: object) -> None:
        """Keep for long, from now on, the messages of one action or of several (`action_names`); none means all."""
        self._watch = action_names(actions)

    def watches(self, message: Message) -> bool:
        """Whether a message like this is kept for long."""
        return watches(self._watch, message.cause_by)

    def add(self, message: Message) -> bool:
        """Append a message and, if it is watched, keep it for long; return whether it was known to neither memory.

        Raises:
            MessageError: it is not a message.
        """
        return bool(self.add_batch([message]))

    def add_batch(self, messages: Iterable[Message]) -> list[Message]:
        """Append messages and keep the watched ones for long, all at once; return those that were new, in order.

        Raises:
            MessageError: one is not a message; none was added.
        """
        unknown = self._not_kept(super().find_news(messages))
        watched = [message for message in unknown if self.watches(message)]
        outcomes = self._store.keep(watched, self.scope) if watched else []
        # What two threads add at once is new to the one whose write came first.
        # What a tombstone keeps out is in neither memory, as little as what is known already is new.
        told = (WriteStatus.DUPLICATE, WriteStatus.SKIPPED)
        known = {each.id for each, was in zip(watched, outcomes, strict=True) if was in told}
        written = {each.id for each in watched} - known
        added = [(each, super(LongTermRole, self).add(each)) for each in unknown if each.id not in known]
        return [message for message, appended in added if appended or message.id in written]

    def update(self, message: Message) -> bool:
        """Put a message in the place of the one with its id, in both memories; return whether there was one.

        What was kept for long stays so, whatever it is now.

        Raises:
            MessageError: it is not a message.
        """
        # Refuses what is not a message.
        super().find_news([message])
        older, owner = self._kept_as(message.id)
        was_kept = bool(self._store.kept([older]))
        if was_kept or (self.watches(message) and self.get_by_id(message.id) is not None):
            newer = item_id(owner, message.id)
            (kept,) = self._store.keep([message], owner)
            if kept is WriteStatus.DUPLICATE:
                # Its words alone make it the one that is there.
                self._store.forget([older])
                self._store.keep([message], owner)
            elif kept is not WriteStatus.SKIPPED and older != newer:
                # It was an item of an import, which had its own id.
                self._store.forget([older])
                self._recalled[message.id] = Kept(newer, owner)
        return super().update(message) or was_kept

    def find_news(self, observed: Iterable[Message], k: int = 0, *, within: int = 0) -> list[Message]:
        """Return those observed messages that are not at hand, and to which nothing similar was kept; none is added.

        Each is given once and in order. With an embedding model, similar is what has a cosine of `known_similarity`;
        what is longer than `max_content_length`, and anything without a model, is known by its very words.

        Args:
            observed: incoming messages.
            k: maximum number of messages returned, the last ones; 0 returns all.
            within: number of newest messages at hand that count as known; 0 means all. What is kept for long is known
                in any case.

        Raises:
            MessageError: one is not a message, or a number is negative.
        """
        super().find_news([], k)
        unknown = self._not_kept(super().find_news(observed, within=within))
        found = self._store.similar([message.text() for message in unknown], self.scope, 1)
        news = [message for message, similar in zip(unknown, found, strict=True) if not similar]
        return news[-k:] if k else news

    def _not_kept(self, messages: list[Message]) -> list[Message]:
        kept = self._store.kept([self._kept_as(message.id).item_id for message in messages])
        return [message for message in messages if self._kept_as(message.id).item_id not in kept]

    def _kept_as(self, message_id: str) -> Kept:
        return self._recalled.get(message_id) or Kept(item_id(self.scope, message_id), self.scope)

    def search_similar(self, message: Message | str, k: int = 4) -> list[Message]:
        """Return at most `k` kept messages that say the same as a message or a text, the most similar first."""
        text = message if isinstance(message, str) else message.text()
        return self._store.similar([text], self.scope, k)[0]

    asearch_similar = as_async(search_similar)

    def delete(self, message: Message | str) -> bool:
        """Forget a message, or the message of an id, in both memories; return whether it was known."""
        message_id = message if isinstance(message, str) else message.id
        was_kept = self._store.forget([self._kept_as(message_id).item_id]) > 0
        return super().delete(message_id) or was_kept

    def delete_newest(self) -> Message | None:
        """Forget the message that was added last, in both memories, and give it; None when there is none."""
        newest = self.get_by_position(-1)
        if newest is not None:
            self.delete(newest)
        return newest

    def clear(self) -> int:
        """Forget everything, in both memories; return the number of messages."""
        only_at_hand = len(self._not_kept(self.get()))
        kept = self._store.forget_all(self.scope)
        super().clear()
        return kept + only_at_hand

    def drop_lost(self) -> None:
        """Forget what is watched and was deleted from the long-term memory by somebody else."""
        for message in self._not_kept([message for message in self.get() if self.watches(message)]):
            super().delete(message)
