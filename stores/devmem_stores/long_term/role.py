"""One role's memory: what it saw last is at hand, what it watches is kept for long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from devmem import Message, Scope, ShortTermMemory, WriteStatus, action_name
from devmem_stores.long_term.config import LongTermConfig, watches


class LongTerm(Protocol):
    """What a role's memory needs of the store behind it."""

    config: LongTermConfig

    def keep(self, messages: Sequence[Message], scope: Scope) -> list[WriteStatus]:
        """Keep messages durably; says of each whether it was there already."""
        ...

    def forget(self, scope: Scope, message_ids: Sequence[str] | None = None) -> int:
        """Delete the messages of these ids, or without ids all of the scope; gives how many there were."""
        ...

    def kept(self, scope: Scope, message_ids: Sequence[str]) -> set[str]:
        """Give those of the message ids that are kept."""
        ...

    def similar(self, texts: Sequence[str], scope: Scope, k: int) -> list[list[Message]]:
        """Give for each text at most `k` kept messages that say the same, the most similar first."""
        ...

    def recall(self, scope: Scope, count: int) -> list[Message]:
        """Give the messages that were kept last, oldest first."""
        ...


class RoleMemory(ShortTermMemory):
    """A short-term memory whose watched messages are kept for long; made by `LongTermMemory.recover`.

    Looking up (`get`, `get_by_action`, ...) is about what is at hand: the newest `short_term` messages. What leaves
    there because of its age, or by `trim`, stays in the long-term memory; what is deleted leaves both. A method that
    reaches the long-term memory raises `CollectionError` when that cannot do its work, and has changed nothing then.
    """

    def __init__(self, store: LongTerm, scope: Scope) -> None:
        super().__init__(dedupe=store.config.dedupe, max_messages=store.config.short_term)
        self.scope = scope
        """Whose memory it is; `agent` is the role."""
        self._store = store
        self._watch = store.config.watch
        # It is kept already, so only the short-term memory takes it.
        for message in store.recall(scope, store.config.short_term):
            super().add(message)

    def watch(self, actions: Iterable[object]) -> None:
        """Keep for long, from now on, the messages of these actions (`action_name`); none named means all."""
        self._watch = [action_name(action) for action in actions]

    def watches(self, message: Message) -> bool:
        """Say whether a message like this is kept for long."""
        return watches(self._watch, message.cause_by)

    def add(self, message: Message) -> bool:
        """Append a message and, if it is watched, keep it for long; says whether it was known to neither memory.

        Raises:
            MessageError: it is not a message.
        """
        return bool(self.add_batch([message]))

    def add_batch(self, messages: Iterable[Message]) -> list[Message]:
        """Append messages and keep the watched ones for long, all at once; gives those that were new, in order.

        Raises:
            MessageError: one is not a message; none was added.
        """
        unknown = super().find_news(messages)
        watched = [message for message in unknown if self.watches(message)]
        outcomes = self._store.keep(watched, self.scope) if watched else []
        # What two threads add at once is new to the one whose write came first.
        is_new = {message.id: was is WriteStatus.STORED for message, was in zip(watched, outcomes, strict=True)}
        added = [(message, super(RoleMemory, self).add(message)) for message in unknown]
        return [message for message, appended in added if is_new.get(message.id, appended)]

    def update(self, message: Message) -> bool:
        """Put a message in the place of the one with its id, in both memories; says whether there was one.

        Raises:
            MessageError: it is not a message.
        """
        known = super().update(message)
        if not self.watches(message):
            return self._store.forget(self.scope, [message.id]) > 0 or known
        if not known and not self._store.kept(self.scope, [message.id]):
            return False
        if self._store.keep([message], self.scope) == [WriteStatus.DUPLICATE]:
            # Told apart by its words alone, a message with other metadata is the one that is there.
            self._store.forget(self.scope, [message.id])
            self._store.keep([message], self.scope)
        return True

    def find_news(self, observed: Iterable[Message], k: int = 0) -> list[Message]:
        """Give those observed messages that are not at hand, and to which nothing similar was kept; none is added.

        Each is given once and in order. With an embedding model, similar is what has a cosine of `known_similarity`;
        what is longer than `max_content_length`, and anything without a model, is known by its very words.

        Args:
            observed: what came in.
            k: at most so many of them, the last ones; 0 gives all.

        Raises:
            MessageError: one is not a message, or `k` is negative.
        """
        super().find_news([], k)
        unknown = super().find_news(observed)
        kept = self._store.kept(self.scope, [message.id for message in unknown])
        unknown = [message for message in unknown if message.id not in kept]
        found = self._store.similar([message.text() for message in unknown], self.scope, 1)
        news = [message for message, similar in zip(unknown, found, strict=True) if not similar]
        return news[-k:] if k else news

    def search_similar(self, message: Message | str, k: int = 4) -> list[Message]:
        """Give at most `k` kept messages that say the same as a message or a text, the most similar first."""
        text = message if isinstance(message, str) else message.text()
        return self._store.similar([text], self.scope, k)[0]

    def delete(self, message: Message | str) -> bool:
        """Forget a message, or the message of an id, in both memories; says whether it was known."""
        message_id = message if isinstance(message, str) else message.id
        was_kept = self._store.forget(self.scope, [message_id]) > 0
        return super().delete(message_id) or was_kept

    def delete_newest(self) -> Message | None:
        """Forget the message that was added last, in both memories, and give it; None when there is none."""
        newest = self.get_by_position(-1)
        if newest is not None:
            self.delete(newest)
        return newest

    def clear(self) -> int:
        """Forget everything, in both memories; gives how many messages there were."""
        at_hand = [message.id for message in self.get()]
        only_at_hand = len(at_hand) - len(self._store.kept(self.scope, at_hand))
        kept = self._store.forget(self.scope)
        super().clear()
        return kept + only_at_hand

    def drop_lost(self) -> None:
        """Forget what is watched and was deleted from the long-term memory by somebody else."""
        watched = [message.id for message in self.get() if self.watches(message)]
        kept = self._store.kept(self.scope, watched)
        for message_id in watched:
            if message_id not in kept:
                super().delete(message_id)
