"""Stale items: those that were derived from others which changed or are gone since, or from such items.

An item names the items that it was derived from (`Provenance.parents`), with a hash of what each of them said then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from devmem.model.items import MemoryContentSnapshot, MemoryItem, SourceKind, is_fact, parent_hash
from devmem.model.results import Hit, HitGroup, SearchReport
from devmem.storage.protocol import Collection
from devmem.storage.reading import SqlReader
from devmem.stores.config import CollectionConfig, ExpiryConfig, RetentionConfig
from devmem.text.analysis import SUMMARY_LENGTH, shorten
from devmem.text.summarizing import count_words

if TYPE_CHECKING:
    from devmem.stores.memory import MemoryBase, MemoryQuery

_LEAST_WORDS: Final = 20
"""Number of words that a renewed item may have at least."""
Read = Callable[[Sequence[str]], Iterable[MemoryItem]]
"""Returns the items of some ids that are there."""


class StaleReason(StrEnum):
    """Reason why an item may no longer hold."""

    CHANGED = "based on something that changed"
    GONE = "based on something that is gone"
    STALE_SOURCE = "based on something that is stale itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleItem:
    """An item that may no longer hold."""

    item: MemoryItem
    reason: StaleReason
    parent: str
    """Id of the item that changed, is gone, or is stale itself."""


def stale_among(items: Sequence[MemoryItem], read: Read, *, trims: bool) -> dict[str, StaleItem]:
    """Return those of some items that are stale, by id.

    Args:
        items: the items.
        read: returns items of the same store.
        trims: whether the store deletes items because of their age or number, so that one that is gone says nothing.
    """
    known = {item.id: item for item in items}
    wanted = {parent for item in items if _is_judged(item) for parent in item.provenance.parents} - known.keys()
    missing: set[str] = set()
    while wanted:
        found = {item.id: item for item in read(list(wanted))}
        known |= found
        missing |= wanted - found.keys()
        above = {parent for item in found.values() if _is_judged(item) for parent in item.provenance.parents}
        wanted = above - known.keys() - missing
    findings = _findings(known, trims=trims)
    return {item.id: findings[item.id] for item in items if item.id in findings}


def _is_judged(item: MemoryItem) -> bool:
    """Whether it is known what the parents of an item said; of items that an earlier devmem stored it is not."""
    return bool(item.provenance.parents) and len(item.provenance.parents) == len(item.provenance.parent_hashes)


def _findings(known: Mapping[str, MemoryItem], *, trims: bool) -> dict[str, StaleItem]:
    """Return the stale items by id; `known` has every item that they were derived from and that is there."""
    hashes: dict[str, str] = {}
    findings: dict[str, StaleItem] = {}
    children: dict[str, list[str]] = {}
    for item in filter(_is_judged, known.values()):
        for parent, said in zip(item.provenance.parents, item.provenance.parent_hashes, strict=True):
            children.setdefault(parent, []).append(item.id)
            if parent in known and parent not in hashes:
                hashes[parent] = parent_hash(known[parent])
            if not said or item.id in findings:
                continue
            if parent in known:
                reason = None if hashes[parent] == said else StaleReason.CHANGED
            else:
                # A summary stands for items that leave the store, and goes with those that are forgotten.
                is_expected = trims or item.provenance.kind is SourceKind.SUMMARY
                reason = None if is_expected else StaleReason.GONE
            if reason is not None:
                findings[item.id] = StaleItem(item=item, reason=reason, parent=parent)
    # What a stale item led to is stale; each item is reached once, also where items were derived in a circle.
    reached = list(findings)
    while reached:
        parent = reached.pop()
        for child in children.get(parent, ()):
            if child not in findings:
                findings[child] = StaleItem(item=known[child], reason=StaleReason.STALE_SOURCE, parent=parent)
                reached.append(child)
    return findings


def judged(store: MemoryBase, query: MemoryQuery, report: SearchReport) -> SearchReport:
    """Return what a store found, stale items marked, or left out where it hides them."""
    stale = _stale_hits(store, report.hits)
    if not stale:
        return report
    if on_stale(store) != "hide":
        return replace(report, hits=_marked(report.hits, stale))
    # Others take their places; further stale ones among these are left out too.
    report = store.answer(replace(query, limit=query.limit + 2 * len(stale)))
    stale = _stale_hits(store, report.hits)
    kept = [hit for hit in report.hits if hit.item.id not in stale]
    return replace(report, hits=tuple(kept[: query.limit]))


def judged_groups(store: MemoryBase, groups: list[HitGroup]) -> list[HitGroup]:
    """Return conversations with stale hits marked, or without them where the store hides them."""
    stale = _stale_hits(store, [hit for group in groups for hit in group.hits])
    if not stale:
        return groups
    if on_stale(store) != "hide":
        return [replace(group, hits=_marked(group.hits, stale)) for group in groups]
    left = ((group, tuple(hit for hit in group.hits if hit.item.id not in stale)) for group in groups)
    return [replace(group, hits=hits) for group, hits in left if hits]


def _stale_hits(store: MemoryBase, hits: Sequence[Hit]) -> dict[str, StaleItem]:
    derived = [hit.item for hit in hits if _is_judged(hit.item)]
    return stale_among(derived, store.get, trims=_trims(store)) if derived else {}


def _marked(hits: Iterable[Hit], stale: Mapping[str, StaleItem]) -> tuple[Hit, ...]:
    return tuple(replace(hit, stale=stale[hit.item.id].reason.value) if hit.item.id in stale else hit for hit in hits)


def on_stale(store: MemoryBase) -> str:
    """Return what becomes of a store's stale items: `mark`, `hide` or `renew`."""
    config = store.setup.config
    return config.on_stale if isinstance(config, CollectionConfig) else "mark"


def _trims(store: MemoryBase) -> bool:
    """Whether a store deletes items because of their age or number."""
    config = store.setup.config
    limits = (config.max_items, config.retention) if isinstance(config, RetentionConfig) else ()
    lifetime = config.lifetime if isinstance(config, ExpiryConfig) else None
    return any(limit is not None for limit in (*limits, lifetime))


def stale_items(store: MemoryBase) -> list[StaleItem]:
    """Return the items of a store that are stale, in the order of storing."""
    collection: object = getattr(store, "collection", None)
    if isinstance(collection, SqlReader):
        derived = collection.derived()
    else:
        derived = [item for item in reversed(store.recent(store.count() + _SPARE)) if item.provenance.parents]
    return list(stale_among(derived, store.get, trims=_trims(store)).values())


_SPARE: Final = 64
"""Number of items that may be added while the others are read."""
_ROUNDS: Final = 100
"""Maximum length of a chain of derived items that is renewed at once."""


class Renewal:
    """Renews the stale items of a store once something changed that can make one stale.

    Items of other processes may commit out of order; each process renews what its own changes made stale.
    """

    def __init__(self) -> None:
        """Know nothing: the first call examines all derived items."""
        self._seen: tuple[int, object] | None = None

    def run(self, store: MemoryBase, collection: Collection) -> None:
        """Renew what is stale, if an item was changed or removed, or a derived one added, since the last call.

        Raises:
            ChatModelError: the language model gave no answer; the next call tries again.
            CollectionError: the items cannot be read or written.
        """
        mark = None
        if isinstance(collection, SqlReader):
            mark = row, change = collection.change_mark()
            last, seen = self._seen or (row, None)
            is_same = self._seen is not None and change == seen
            if is_same and (row == last or not collection.derived(after=min(row, last))):
                self._seen = mark
                return
        renew(store)
        self._seen = mark


def renew(store: MemoryBase, ids: Iterable[str] | None = None) -> list[str]:
    """Renew stale items with summaries of their sources that are left, and return the ids of the renewed items.

    An item without any source left stays stale, and so does a fact, which is extracted again with its turn. Items
    derived from a renewed one are renewed after it.

    Args:
        store: keeps the items; their versions before stay in its history.
        ids: of the items; None for all that are stale.

    Raises:
        ChatModelError: the language model gave no answer; the items before it are renewed.
        CollectionError: they cannot be written.
    """
    wanted, done = None if ids is None else set(ids), dict[str, None]()
    for _ in range(_ROUNDS):
        stale = (each for each in stale_items(store) if each.item.id not in done)
        due = [each for each in stale if not is_fact(each.item) and (wanted is None or each.item.id in wanted)]
        # Of a chain first what rests on nothing stale.
        first = [each for each in due if each.reason is not StaleReason.STALE_SOURCE] or due[:1]
        made = [new for each in first if (new := _renewed(store, each.item)) is not None]
        if not made:
            break
        store.add(made)
        done.update(dict.fromkeys(item.id for item in made))
    return list(done)


def _renewed(store: MemoryBase, item: MemoryItem) -> MemoryItem | None:
    """Return an item with a summary of what is left of its sources; None where nothing is."""
    sources = list(store.get(item.provenance.parents))
    told = "\n".join(text for source in sources if (text := source.full_text().strip()))
    if not told:
        return None
    words = max(count_words(item.full_text()), _LEAST_WORDS)
    text = store.summarizer().summarize(told, max_words=words).text
    return replace(
        item,
        content_summary=shorten(text, SUMMARY_LENGTH),
        input_snapshot=None,
        output_snapshot=None if item.output_snapshot is None else MemoryContentSnapshot(text=text),
        trust=min([item.trust, *(source.trust for source in sources)]),
        provenance=replace(item.provenance, parents=tuple(each.id for each in sources), parent_hashes=()),
        embedding=None,
        content_hash="",
    )
