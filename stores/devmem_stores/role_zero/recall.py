"""Recall of older messages that are related to the newest ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from devmem import Hit, MemoryItem
from devmem.manager import StoreFailure
from devmem.messages import Message, item_to_message
from devmem_stores.role_zero.rules import Importance


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Result of a recall: a role's newest messages, and older ones that are related."""

    recent: tuple[Message, ...]
    """The newest messages, in the order in which they came."""
    related: tuple[Message, ...] = ()
    """Older messages, none of which is in `recent`, the best first."""
    hits: tuple[Hit, ...] = ()
    """Hits of the search, in the order of `related`."""
    query: str = ""
    """Text that was searched for; empty when nothing was."""
    failures: tuple[StoreFailure, ...] = ()
    """Failures of the search; the newest messages are there all the same."""

    @property
    def messages(self) -> list[Message]:
        """The related messages by the time at which they were made, then the newest in the order of their arrival."""
        return [*sorted(self.related, key=lambda message: message.created_at), *self.recent]


def related_hits(
    search: Callable[[int], Sequence[Hit]], wanted: int, admit: Callable[[MemoryItem], bool], spare: int = 0
) -> list[Hit]:
    """Return the best hits whose item is admitted.

    Args:
        search: returns at most that many hits, best first.
        wanted: maximum number of hits.
        admit: whether an item may be among them.
        spare: number of items that are likely to be refused, to save a second search.
    """
    limit = wanted + spare
    while True:
        hits = search(limit)
        found = [hit for hit in hits if admit(hit.item)]
        if len(found) >= wanted or len(hits) < limit:
            return found[:wanted]
        limit *= 4


class Fresh:
    """Predicate for recall: not a recent message, not a repetition, and important enough."""

    def __init__(self, recent: Sequence[MemoryItem], importance: Importance, least: float) -> None:
        self._importance, self._least = importance, least
        self._ids = {item.id for item in recent}
        self._texts = {_said(item) for item in recent}
        self._seen: dict[str, str] = {}

    def __call__(self, item: MemoryItem) -> bool:
        """Whether the item may be recalled; the answer about an item is always the same."""
        if item.id in self._ids or _said(item) in self._texts:
            return False
        # The same words twice are recalled once; asked again about the same item, the answer is the same.
        if self._seen.setdefault(_said(item), item.id) != item.id:
            return False
        return self._least <= 0 or self._importance(item_to_message(item)) >= self._least


def _said(item: MemoryItem) -> str:
    return " ".join(item.content_summary.casefold().split())
