"""A collection with pending runs as plain dictionaries: what others see, what each run sees, and its conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from devmem.search.query import Ranking, SearchQuery
from devmem.storage.protocol import Collection

Texts: TypeAlias = dict[str, str]
"""Text of each item, by its id."""
Overlay: TypeAlias = dict[str, tuple[str | None, str | None]]
"""Change of each item in a run: the text that was there first, and the one that the run wrote; None is not an item."""
_EVERY: Final = SearchQuery(text="note", limit=999, ranking=Ranking(collapse=False))


@dataclass(slots=True)
class RunModel:
    """The items of a collection, and the overlay of each of two pending runs."""

    outside: Texts = field(default_factory=dict)
    overlays: list[Overlay] = field(default_factory=lambda: [{}, {}])

    def seen(self, slot: int) -> Texts:
        """Return the items that a run sees."""
        own = self.overlays[slot]
        others = {key: text for key, text in self.outside.items() if key not in own}
        return others | {key: text for key, (_, text) in own.items() if text is not None}

    def conflicts(self, slot: int) -> list[str]:
        """Return the ids of the items that others changed since the run did, in order."""
        return sorted(
            key
            for key, (base, text) in self.overlays[slot].items()
            if self.outside.get(key) != base and not (text is None and key not in self.outside)
        )

    def add(self, texts: Mapping[str, str]) -> None:
        """Add items outside of the runs, or replace them."""
        self.outside.update(texts)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete items outside of the runs; return how many there were."""
        return sum(self.outside.pop(key, None) is not None for key in ids)

    def erase(self, ids: Iterable[str]) -> int:
        """Delete items with every version that they ever had, those of the runs too; return how many were current."""
        for key in ids:
            for overlay in self.overlays:
                overlay.pop(key, None)
        return self.delete(ids)

    def add_in_run(self, slot: int, texts: Mapping[str, str]) -> None:
        """Add items in a run, or replace them."""
        for key, text in texts.items():
            base, _ = self.overlays[slot].get(key, (self.outside.get(key), None))
            self.overlays[slot][key] = base, text

    def delete_in_run(self, slot: int, ids: Iterable[str]) -> int:
        """Delete items in a run; return how many of them it saw."""
        found = set(ids) & set(self.seen(slot))
        for key in found:
            base, _ = self.overlays[slot].get(key, (self.outside.get(key), None))
            self.overlays[slot][key] = base, None
            if base is None and key not in self.outside:
                # Only this run has added it.
                del self.overlays[slot][key]
        return len(found)

    def commit(self, slot: int) -> bool:
        """Make the changes of a run current ones, unless there are conflicts; return whether it ended."""
        if self.conflicts(slot):
            return False
        self.outside, self.overlays[slot] = self.seen(slot), {}
        return True

    def discard(self, slot: int) -> None:
        """Drop the changes of a run."""
        self.overlays[slot] = {}


def shown_texts(collection: Collection, ids: Iterable[str]) -> list[Texts]:
    """Return the items of a collection as each of three ways of reading it shows them: they must all be the same."""
    read = (
        collection.get([*ids]),
        list(collection.scan()),
        [hit.item for hit in collection.search(_EVERY)],
    )
    return [{item.id: item.content_summary for item in items} for items in read]
