"""Items that are made of other items: they are trusted no more than these, name them, and go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devmem.model.items import MemoryItem


def derived(item: MemoryItem, parents: Sequence[MemoryItem]) -> MemoryItem:
    """Return an item as one that was made of others.

    Its trust is at most the least of theirs, its provenance names them beside those that it names already, and it
    expires with the first of them.
    """
    times = [each.expires_at for each in (item, *parents) if each.expires_at is not None]
    names = dict.fromkeys([*item.provenance.parents, *(parent.id for parent in parents)])
    return replace(
        item,
        trust=min([item.trust, *(parent.trust for parent in parents)]),
        expires_at=min(times, default=None),
        provenance=replace(item.provenance, parents=tuple(names)),
    )
