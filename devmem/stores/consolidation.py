"""Consolidation of a store, in one run that is committed, or reverted, as a whole.

Near-duplicates become one item, old conversations get digests, and old items of low trust that no agent was ever shown
are archived.

Two items are near-duplicates if the form of their texts is the same (`statement_form`), and so are their user, agent,
session and conversation, their metadata, the day on which they happened, and whether they expire. Groups are found by
hashes, in time that grows with the number of items.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

from pydantic import JsonValue

from devmem.errors import ConsolidationError, RunConflictError, RunStateError, VersionConflictError
from devmem.model.caller import current_actor
from devmem.model.filters import OWNER_PARTS, Filter
from devmem.model.items import KEY, REPEATS, MemoryItem, is_pinned, is_quarantined, version_hash
from devmem.model.versions import MERGED, RunState, merged_notes
from devmem.stores.abilities import every_item, versions_of
from devmem.stores.archiving import ArchiveRule, archivable, archive_of, shown_ids, write_archive
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.config import CollectionConfig
from devmem.stores.digests import DigestReport, make_digests
from devmem.stores.guarding import admitting
from devmem.stores.indexing import Indexing
from devmem.stores.runs import StoreRun
from devmem.text.duplicates import depends_on_day, statement_form
from devmem.text.files import replace_file

if TYPE_CHECKING:
    from devmem.stores.memory import MemoryBase, Progress

_LOG: Final = logging.getLogger(__name__)
_DAY: Final = 86_400
_BATCH_SIZE: Final = 100
"""Number of groups that are merged in one transaction."""
_LARGEST_GROUP: Final = 1_000
"""Number of items that become one; of a larger group more than one is left."""
_ATTEMPTS: Final = 3
"""Number of times that a run is begun, when others change its items before it is committed."""
_RUNS: Final = 1_000
"""Number of the newest runs among which a pending one is looked for."""
_PREFIX: Final = "consolidation-"
_RECORD: Final = "interaction"
"""Metadata key of a record of the store type `conversation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Items that say the same, and the one that is left of them."""

    before: MemoryItem
    """The item that is left, as it was."""
    kept: MemoryItem
    """The same item with what is known of the others in its metadata (`MERGED`)."""
    merged: tuple[MemoryItem, ...]
    """The others, which are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """Result of a consolidation, or of its dry run."""

    run: str | None
    """Id of the committed run, which `revert` undoes; None where nothing was to be done, and of a dry run."""
    items: int
    """Number of items before."""
    merges: tuple[Merge, ...] = ()
    digests: tuple[MemoryItem, ...] = ()
    """New digests of conversations; their metadata `DIGEST` have the turns of each sentence."""
    unsupported: int = 0
    """Number of sentences of a language model that were left out, as the conversation does not say so."""
    archived: tuple[MemoryItem, ...] = ()
    """Items that were archived."""
    recalls_known: bool = True
    """Whether it is recorded which items agents were shown; False where items were archived by age and trust alone."""

    @property
    def removed(self) -> int:
        """Number of items that are left out."""
        return sum(len(each.merged) for each in self.merges)


def consolidate(
    store: MemoryBase,
    where: Filter | None = None,
    *,
    ignore: Sequence[str] = (),
    digest_before: float | None = None,
    archive: ArchiveRule | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Consolidation:
    """Merge near-duplicates; where that is asked for, add digests of old conversations, and archive items.

    Pinned items, those with a key or in quarantine, messages and records of conversations, items with attachments, and
    those that were derived from others, or others from them, stay unchanged. What a process that died has left of the
    same consolidation is discarded.

    Args:
        store: keeps the items, with their versions.
        where: filter of the items that may be merged.
        ignore: metadata keys whose values may differ.
        digest_before: add a digest of each conversation that ended before this time (seconds since the epoch).
        archive: archive what it says of the items that may be merged, where no agent was shown them.
        dry_run: change nothing.
        progress: is called with the number of items that were read.

    Raises:
        NoVersionsError: the store keeps no versions, so that nothing could be reverted.
        RunConflictError: others changed the same items again and again; nothing was changed.
        ChatModelError: the store's language model gave no answer for a digest; the run stays pending.
        RecallLogError: it cannot be read what agents were shown, so that nothing is archived; the run stays pending.
    """
    versions_of(store)
    if getattr(store.setup.config, "history_days", None) == 0:
        raise ConsolidationError(store.name, "its `history` is `none`, so that it could not be reverted")
    if isinstance(store, Indexing):
        raise ConsolidationError(store.name, "its items are made of files, which would bring back what is merged")
    shown: frozenset[str] | None = frozenset()
    if archive is not None:
        archive_of(store)
        shown = shown_ids(store)
    wanted = _Wanted(where or Filter(), tuple(ignore), digest_before, archive, shown)
    return _consolidated(store, None, wanted, progress) if dry_run else _in_run(store, wanted, progress)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The arguments of a consolidation, and the ids of what agents were shown; None where that is not known."""

    where: Filter
    ignore: tuple[str, ...]
    digest_before: float | None
    archive: ArchiveRule | None
    shown: frozenset[str] | None


def _in_run(store: MemoryBase, wanted: _Wanted, progress: Progress | None) -> Consolidation:
    """Consolidate in a run, and begin again where others change the same items meanwhile."""
    versions = versions_of(store)
    named = blake2b(repr((store.name, wanted.where, sorted(wanted.ignore))).encode(), digest_size=6).hexdigest()
    for info in versions.runs(_RUNS):
        if info.state is RunState.PENDING and info.run.startswith(f"{_PREFIX}{named}-"):
            versions.discard(info.run)
    left = _ATTEMPTS
    while True:
        run = StoreRun(
            f"{_PREFIX}{named}-{uuid4().hex[:12]}", {store.name: store}, decisions=None, actor=current_actor().name
        )
        left -= 1
        try:
            done = _consolidated(store, cast("CollectionMemory", run.stores[store.name]), wanted, progress)
            if versions.find_run(run.run) is None:
                return done
            run.commit()
            return replace(done, run=run.run)
        except (RunConflictError, RunStateError, VersionConflictError):
            # Another process may have changed the items, or taken the run for one that a dead process left.
            run.discard()
            if not left:
                raise
            _LOG.info("%s: others changed items that were about to be merged; beginning again", store.name)
        finally:
            run.close()


def _consolidated(
    store: MemoryBase, run: CollectionMemory | None, wanted: _Wanted, progress: Progress | None
) -> Consolidation:
    """Do it in a run's view of the store; without one, only find what is to be done."""
    before, view = store.count(wanted.where), run or store
    merges: list[Merge] = []
    planned = _planned(store, view, wanted, progress)
    while batch := list(islice(planned, _BATCH_SIZE)):
        merges += batch
        if run is not None:
            with admitting(*(each.before.id for each in batch)):
                expected = {each.before.id: version_hash(each.before) for each in batch}
                run.add([each.kept for each in batch], expected=expected)
            run.delete(ids=[item.id for each in batch for item in each.merged])
    report = DigestReport()
    if wanted.digest_before is not None:
        for digest in make_digests(view, wanted.where, wanted.digest_before, report):
            if run is not None:
                with admitting(digest.id):
                    run.add([digest])
    archived: list[MemoryItem] = []
    if wanted.archive is not None:
        kept = {each.before.id: each.kept for each in merges}
        gone = {item.id for each in merges for item in each.merged}
        left = (kept.get(item.id, item) for item in every_item(view) if item.id not in gone)
        now = store.setup.clock()
        archived = archivable(
            chain(left, report.items),
            wanted.archive,
            shown=wanted.shown or (),
            may_archive=lambda item: _may_merge(item) and wanted.where.admits(item, now),
        )
        if run is not None:
            write_archive(run, [item.id for item in archived])
    return Consolidation(
        run=None,
        items=before,
        merges=tuple(merges),
        digests=tuple(report.items),
        unsupported=report.dropped,
        archived=tuple(archived),
        recalls_known=wanted.shown is not None,
    )


def consolidate_when_due(store: MemoryBase) -> Consolidation | None:
    """Consolidate a store if its `consolidate:` block says that it is time; None where it does not.

    The time of the last one is kept in a file of the session; without a session's folder it is always due.

    Raises:
        CollectionError, RunConflictError, ChatModelError: it failed, and will be tried the next time.
        OSError: the time cannot be written.
    """
    config, now = store.setup.config, store.setup.clock()
    options = config.consolidate if isinstance(config, CollectionConfig) else None
    place = store.setup.location("auto")
    file = None if place is None else Path(f"{place}.consolidated")
    try:
        last = float("-inf") if file is None else float(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        last = float("-inf")
    if options is None or 0 <= now - last < options.every:
        return None
    before = None if options.digest_after is None else now - options.digest_after
    wanted = options.archive
    rule = None if wanted is None else ArchiveRule(before=now - wanted.after, max_trust=wanted.max_trust)
    done = consolidate(store, ignore=options.ignore, digest_before=before, archive=rule)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, [repr(now).encode()])
    if done.run is not None:
        counts = done.removed, len(done.archived)
        _LOG.info("memory store %r: %d items merged, %d archived, as run %s", store.name, *counts, done.run)
    return done


# Finding near-duplicates.


def _planned(store: MemoryBase, view: MemoryBase, wanted: _Wanted, progress: Progress | None) -> Iterator[Merge]:
    """Yield what is to be merged, of the items that a view of the store has."""
    ignore = wanted.ignore
    groups = _groups(view, wanted.where, ignore, progress)
    sources = {
        parent
        for item in (store.derived_from([name for names in groups for name in names]) if groups else ())
        for parent in item.provenance.parents
    }
    for names in groups:
        alike: dict[bytes | None, list[MemoryItem]] = {}
        # They may have changed since they were read first.
        for item in view.get([name for name in names if name not in sources]):
            if _may_merge(item):
                alike.setdefault(_key(item, ignore), []).append(item)
        alike.pop(None, None)
        for items in alike.values():
            for start in range(0, len(items), _LARGEST_GROUP):
                if len(part := items[start : start + _LARGEST_GROUP]) > 1:
                    yield _merged(part)


def _groups(view: MemoryBase, where: Filter, ignore: Sequence[str], progress: Progress | None) -> list[list[str]]:
    """Return the ids of items that are alike, in groups of two and more."""
    now, ids = view.setup.clock(), dict[bytes, list[str]]()
    for number, item in enumerate(every_item(view, where), start=1):
        if _may_merge(item) and not item.expired(now) and (key := _key(item, ignore)) is not None:
            ids.setdefault(key, []).append(item.id)
        if progress is not None and number % _BATCH_SIZE == 0:
            progress(number)
    return [names for names in ids.values() if len(names) > 1]


def _may_merge(item: MemoryItem) -> bool:
    snapshots = (item.input_snapshot, item.output_snapshot)
    return not (
        is_pinned(item)
        or is_quarantined(item)
        or item.provenance.parents
        or KEY in item.metadata
        or item.metadata.get(_RECORD) is True
        or item.is_message
        or any(snapshot is not None and snapshot.has_multimodal() for snapshot in snapshots)
    )


def _key(item: MemoryItem, ignore: Sequence[str]) -> bytes | None:
    """Return what near-duplicates have in common, hashed; None where the text has no words."""
    text = item.full_text()
    form = statement_form(text)
    if not form:
        return None
    if item.event_time is not None:
        day: object = item.event_time // _DAY
    else:
        day = f"stored {item.created_at // _DAY}" if depends_on_day(text) else None
    compared = {key: value for key, value in item.metadata.items() if key not in (MERGED, REPEATS, *ignore)}
    facts = json.dumps(compared, sort_keys=True, default=str)
    scope = [getattr(item.scope, part) for part in OWNER_PARTS]
    said = repr((scope, day, form, facts, item.expires_at is None, item.indexed_fields))
    return blake2b(said.encode(), digest_size=16).digest()


def _merged(items: Sequence[MemoryItem]) -> Merge:
    """Return near-duplicates as one item: the most trusted, of these one that stands for others, or else the oldest."""
    first, *others = sorted(items, key=lambda item: (-item.trust, MERGED not in item.metadata, item.created_at))
    told = [*merged_notes(first), *(note for item in others for note in _told(item, first))]
    notes = {str(note["id"]): note for note in told if note["id"] != first.id}
    times = [item.expires_at for item in items if item.expires_at is not None]
    kept = replace(
        first,
        metadata={**first.metadata, MERGED: list[JsonValue](notes.values())},
        expires_at=max(times, default=None),
        embedding=None,
    )
    return Merge(before=first, kept=kept, merged=tuple(others))


def _told(item: MemoryItem, kept: MemoryItem) -> list[dict[str, JsonValue]]:
    """Return what is kept of an item that is merged into another one: its id and times, and what differs."""
    note: dict[str, JsonValue] = {"id": item.id, "stored": item.created_at}
    if item.event_time is not None:
        note["time"] = item.event_time
    if item.content_hash != kept.content_hash:
        note["text"] = item.full_text()
    if item.provenance != kept.provenance:
        note["source"] = {"kind": item.provenance.kind.value, "name": item.provenance.name}
    if item.trust != kept.trust:
        note["trust"] = item.trust
    if item.expires_at != kept.expires_at:
        note["expires_at"] = item.expires_at
    scope = {name: value for name in ("trace", "run") if (value := getattr(item.scope, name)) is not None}
    if scope:
        note["scope"] = {**scope}
    own = {
        key: value
        for key, value in item.metadata.items()
        if key != MERGED and (key not in kept.metadata or kept.metadata[key] != value)
    }
    if own:
        note["metadata"] = own
    return [*merged_notes(item), note]
