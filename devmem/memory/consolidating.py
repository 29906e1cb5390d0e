"""Consolidating a memory within the reach of a handle, and bringing archived records back."""

from __future__ import annotations

from collections.abc import Sequence

from devmem.memory.contents import ConsolidateOptions, check_trust
from devmem.memory.records import seconds_of
from devmem.memory.scope import ScopeGuard, split_scope
from devmem.model.caller import acting_as
from devmem.model.results import NOT_ARCHIVED, WriteOutcome
from devmem.stores.archiving import MAX_TRUST, ArchiveRule, archive_of, archived_items, restore
from devmem.stores.consolidation import Consolidation, consolidate
from devmem.stores.memory import MemoryBase, Progress, observed


def consolidated(
    store: MemoryBase, guard: ScopeGuard, options: ConsolidateOptions, *, dry_run: bool, progress: Progress | None
) -> Consolidation:
    """Consolidate what is within reach; see `Memory.consolidate`."""
    scope, said = split_scope(options, ConsolidateOptions)
    digested, archived_before = said.get("digest_before"), said.get("archive_before")
    check_trust(most := said.get("max_trust", MAX_TRUST))
    rule = None if archived_before is None else ArchiveRule(before=seconds_of(archived_before), max_trust=most)
    with observed(store, "update_memory") as operation, acting_as(guard.parts.agent):
        done = consolidate(
            store,
            guard.matching(scope),
            ignore=said.get("ignore", ()),
            digest_before=None if digested is None else seconds_of(digested),
            archive=rule,
            dry_run=dry_run,
            progress=progress,
        )
        operation.records(0 if dry_run else done.removed + len(done.archived), tuple)
        return done


def restored(store: MemoryBase, guard: ScopeGuard, ids: Sequence[str]) -> list[WriteOutcome]:
    """Bring archived items within reach back; see `Memory.restore`."""
    reach, now = guard.filter(), store.setup.clock()
    archive_of(store)
    within = {item.id for item in archived_items(store, ids) if reach.admits(item, now)}
    # An id out of reach is as one that does not exist.
    wanted = list(dict.fromkeys(one for one in ids if one in within))
    with acting_as(guard.parts.agent):
        outcomes = dict(zip(wanted, restore(store, wanted), strict=True))
    return [outcomes.get(one, NOT_ARCHIVED) for one in ids]
