"""The `long_term` store: watched messages are kept for long, roles recover them, and news are what is not known."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from devmem import Filter, Hit, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.errors import EmbeddingError, MessageError
from devmem.messages import Message, item_to_message
from devmem.storage import SearchQuery, Unique, Weights
from devmem.stores import CollectionMemory, ConfigModel, StoreSetup, Vector, WriteStatus, item_from, skipped
from devmem.text import shorten, strip_frames
from devmem_stores.long_term.config import LongTermConfig
from devmem_stores.long_term.role import Kept, LongTermRole, item_of, same_words, whole_text

_ROUNDING: Final = 1e-6
_LOOKED_AT: Final = 10
"""Candidates of one text, of which some may turn out to be only half the same."""
_LOG: Final = logging.getLogger(__name__)


class LongTermMemory(CollectionMemory):
    """Keeps the messages of watched actions, each once, for every role apart."""

    config_model: ClassVar[type[ConfigModel]] = LongTermConfig
    summary: ClassVar[str] = "Long-term memory of messages: keeps what is watched, tells a role what is news"

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(LongTermConfig)
        self.unique = Unique(self.config.dedupe)
        self._roles: dict[Scope, LongTermRole] = {}
        self._recovering = threading.Lock()

    def recover(self, role_id: str, watch: object = None, *, scope: Scope | None = None) -> LongTermRole:
        """Return a role's memory, with what it knew last at hand; the same object each time.

        Its `restored` is the number of messages that were taken back; whether it is empty is logged as information.
        The role's id is data: it names no file, so it may hold any character.

        Args:
            role_id: the role's name.
            watch: actions whose messages this role keeps for long, one or several (`action_names`); None takes the
                store's.
            scope: whom the memory is for beside the role, as a user or a conversation.

        Raises:
            MessageError: the id is blank, or something stored is not a message any more.
            CollectionError: the place where the messages are cannot be read.
        """
        if not role_id.strip():
            raise MessageError("a role needs an id that is not blank: without one, all roles would be meant")
        owner = replace(scope or Scope(), agent=role_id)
        with self._recovering:
            if owner not in self._roles:
                self._roles[owner] = role = LongTermRole(self, owner)
                _LOG.info("memory store %r: %d message(s) of role %r restored", self.name, role.restored, owner.agent)
            role = self._roles[owner]
        if watch is not None:
            role.watch(watch)
        return role

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Take what a watched action said."""
        asked, answered = strip_frames(payload.inputs_text).strip(), payload.output_text().strip()
        said = [text for text in (asked, answered) if text]
        if not said:
            return skipped("neither the input nor the output has a text")
        action = str(payload.metadata.get("cause_by") or payload.source)
        if not self.config.watches(action):
            return skipped(f"{action!r} is not watched; watched are {', '.join(self.config.watch)}")
        summary = "\n".join(shorten(text, self.config.max_content_length // len(said)) for text in said)
        return item_from(payload, summary, created_at=self.setup.clock())

    def keep(self, messages: Sequence[Message], scope: Scope) -> list[WriteStatus]:
        """Keep messages durably; return the status of each write.

        Raises:
            MessageError: a message has no JSON form.
            CollectionError: nothing was written.
        """
        items = [
            item_of(
                message,
                scope,
                stored_at=self.setup.clock(),
                max_length=self.config.max_content_length,
                by_content=self.unique is Unique.CONTENT,
            )
            for message in messages
        ]
        return [outcome.status for outcome in self.store_items(items)]

    def forget(self, item_ids: Sequence[str]) -> int:
        """Delete items; return their number."""
        return self.collection.delete(ids=item_ids)

    def forget_all(self, scope: Scope) -> int:
        """Delete every item of a scope; return their number."""
        return self.collection.delete(where=Filter(scope=scope))

    def kept(self, item_ids: Sequence[str]) -> set[str]:
        """Return those of the items that are kept."""
        now = self.setup.clock()
        return {item.id for item in self.collection.get(item_ids) if not item.expired(now)}

    def recall(self, scope: Scope, count: int) -> list[tuple[Kept, Message]]:
        """Return the messages that were kept last, oldest first, each with where it is kept."""
        recent = self.collection.recent(count, Filter(scope=scope))
        return [(Kept(item.id, item.scope), item_to_message(item)) for item in reversed(recent)]

    def similar(self, texts: Sequence[str], scope: Scope, k: int) -> list[list[Message]]:
        """Return for each text at most `k` kept messages that say the same, the most similar first.

        The texts are embedded in one call. A provider that fails leaves their words to compare.
        """
        vectors: dict[str, Vector] = {}
        meant = [text for text in dict.fromkeys(texts) if self._compared_by_meaning(text)]
        if self.embedder is not None and meant:
            try:
                vectors = dict(zip(meant, self.embedder.embed(meant), strict=True))
            except EmbeddingError as error:
                _LOG.warning("memory store %r tells news by their words alone for now: %s", self.name, error)
        # An item that waits for its embedding is found by its words alone.
        some_wait = bool(self.collection.waiting(1))
        found: list[list[Message]] = []
        for text in texts:
            items = self._near(vectors[text], scope, k) if text in vectors else {}
            if text.strip() and (some_wait or text not in vectors):
                items |= self._worded(text, scope, k)
            found.append([item_to_message(item) for item in items.values()][: max(k, 0)])
        return found

    def _compared_by_meaning(self, text: str) -> bool:
        # Of a long text only passages have embeddings: one that is alike says nothing of the others.
        return bool(text.strip()) and len(text) <= self.config.max_content_length

    def _near(self, vector: Vector, scope: Scope, k: int) -> dict[str, MemoryItem]:
        asked = SearchQuery(
            vector=vector,
            min_similarity=self.config.known_from - _ROUNDING,
            weights=Weights(similarity=1.0, lexical=0.0),
        )
        hits = self._candidates(asked, scope, k)
        return {hit.item.id: hit.item for hit in hits if self._compared_by_meaning(whole_text(hit.item))}

    def _worded(self, text: str, scope: Scope, k: int) -> dict[str, MemoryItem]:
        # With weights no hit stands for others that say the same: those are other roles' own.
        hits = self._candidates(SearchQuery(text=text, weights=Weights(similarity=0.0, lexical=1.0)), scope, k)
        return {hit.item.id: hit.item for hit in hits if same_words(whole_text(hit.item), text)}

    def _candidates(self, asked: SearchQuery, scope: Scope, k: int) -> Sequence[Hit]:
        """Search what belongs to a scope; some more than `k` hits, as some may turn out to be only half the same."""
        wanted = max(2 * k, _LOOKED_AT)
        hits = self.collection.search(replace(asked, limit=4 * wanted)).hits
        own = [hit for hit in hits if scope.admits(hit.item.scope)]
        if len(own) >= wanted or len(hits) < 4 * wanted:
            return own
        # What others keep took the places. Asked for only then: to list a scope's items costs more than the search.
        return self.collection.search(replace(asked, limit=wanted, where=Filter(scope=scope))).hits

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Forget the items stored last, in the roles' memories too; return them, newest first."""
        found = super().pop(count, where)
        self._followed(len(found))
        return found

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        return self._followed(super()._delete(ids, where))

    def clear(self) -> int:
        """Forget everything, in the roles' memories too."""
        return self._followed(super().clear())

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the newest items, and those that are too old, in the roles' memories too."""
        return self._followed(super().trim(keep=keep, stored_before=stored_before))

    def _followed(self, deleted: int) -> int:
        with self._recovering:
            roles = list(self._roles.values())
        if deleted:
            for role in roles:
                role.drop_lost()
        return deleted
