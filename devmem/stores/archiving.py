"""The archive of a store: old items of low trust that no agent was ever shown leave the indexes, and are kept.

They are found where archived items are asked for, and `Memory.restore` brings one back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from devmem.errors import NoArchiveError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.versions import merged_ids
from devmem.storage.recall_log import shown_items
from devmem.storage.versions import SqlWriter, VersionedCollection
from devmem.stores.abilities import keeps_versions, versions_of, viewed
from devmem.stores.collection_memory import CollectionMemory

if TYPE_CHECKING:
    from devmem.stores.memory import MemoryBase

MAX_TRUST: Final = 0.5
"""Trust up to which items are archived, unless another one is given: that of what tools return is less."""
_BATCH_SIZE: Final = 500
"""Number of items that are archived in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRule:
    """Which of the items that no agent was shown are archived."""

    before: float
    """They were stored before this time, in seconds since the epoch."""
    max_trust: float = MAX_TRUST
    """Their trust is this at most."""

    def admits(self, item: MemoryItem) -> bool:
        """Whether an item is old enough, and of so low a trust."""
        return item.created_at < self.before and item.trust <= self.max_trust


def archive_of(store: MemoryBase) -> VersionedCollection:
    """Return the collection that keeps the archived items of a store.

    Raises:
        NoArchiveError: there is none.
    """
    return versions_of(store, NoArchiveError)


def archived(store: MemoryBase) -> MemoryBase:
    """Return a store of the archived items of another one, read only; the caller closes it.

    Its first search makes a temporary index of all of them.

    Raises:
        NoArchiveError: the store has no archive.
    """
    return viewed(store, archive_of(store).archived())


def count_archived(store: MemoryBase, where: Filter | None = None) -> int:
    """Return the number of archived items that match; 0 where a store has no archive."""
    if not keeps_versions(store):
        return 0
    with closing(archive_of(store).archived()) as old:
        return old.count(where)


def archived_items(store: MemoryBase, ids: Sequence[str]) -> list[MemoryItem]:
    """Return the archived items of some ids; none where a store has no archive."""
    if not keeps_versions(store):
        return []
    # The collection's own view: a store whose type has no views of its items may have archived ones as well.
    with closing(archive_of(store).archived()) as old:
        return old.get(ids)


def every_archived(store: MemoryBase) -> Iterator[MemoryItem]:
    """Yield the archived items, oldest first; none where a store has no archive."""
    if keeps_versions(store):
        with closing(archive_of(store).archived()) as old:
            yield from old.scan()


def shown_ids(store: MemoryBase) -> frozenset[str] | None:
    """Return the ids of the items that agents were shown, as far as it is recorded; None where nothing is.

    The logs of all sessions of the workflow count; those on other machines are not known.
    """
    folder = store.setup.session_dir
    return None if folder is None else shown_items(folder.parent)


def archivable(
    items: Iterable[MemoryItem], rule: ArchiveRule, *, shown: Collection[str], may_archive: Callable[[MemoryItem], bool]
) -> list[MemoryItem]:
    """Return the items that a rule archives.

    Args:
        items: every item of the store: those that others were derived from stay.
        rule: the rule.
        shown: ids of the items that agents were shown; what was merged into an item counts for it.
        may_archive: whether an item may be archived at all.
    """
    sources: set[str] = set()
    found: list[MemoryItem] = []
    for item in items:
        sources.update(item.provenance.parents)
        if rule.admits(item) and may_archive(item) and not any(name in shown for name in (item.id, *merged_ids(item))):
            found.append(item)
    return [item for item in found if item.id not in sources]


def write_archive(view: CollectionMemory, ids: Sequence[str]) -> None:
    """Archive items in a run's view."""
    collection = view.collection
    if not isinstance(collection, SqlWriter):
        raise NoArchiveError(view.name, f"its items are in {collection.info().location}, which has none")
    for start in range(0, len(ids), _BATCH_SIZE):
        collection.archive(ids[start : start + _BATCH_SIZE])
