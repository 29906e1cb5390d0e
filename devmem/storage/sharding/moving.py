"""Moving a tenant to another shard while it is read and written.

The versions of both sides are compared, and the items that differ are replaced in the target with their whole history,
until few are left. Then writers of the tenant wait while the rest is copied, and one change of the map decides that the
tenant lives in the target. Each step can be repeated: a move that was killed goes on when it is asked for again, and
what is left to be erased is erased by whoever opens the store next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from devmem.errors import CollectionBusyError, CollectionError
from devmem.storage.erasure import EraseRequest
from devmem.storage.fencing import StaleMapError, expecting_map
from devmem.storage.protocol import Collection
from devmem.storage.shard import Signature, Tenant
from devmem.storage.sharding.shard_map import Move, Phase, ShardMap, digest_of
from devmem.storage.sharding.shard_set import ShardSet

_LOG: Final = logging.getLogger(__name__)
_BATCH: Final = 200
"""Number of items that are copied, or erased, in one transaction."""
_FEW: Final = 200
"""Number of differing items up to which writers may wait for the rest."""
_MOST_ROUNDS: Final = 10
"""Number of comparisons after which writers wait for whatever is left."""
_PENDING: Final = "a pending run has changes of the tenant: commit or discard it first (`devmem runs`)."

Progress = Callable[[int, int], None]
"""Is told the number of items that were copied, and that of all that are to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """A move of a tenant."""

    tenant: str | None
    source: str
    target: str
    copied: int
    """Number of items that were copied, some of them again, as they changed meanwhile."""


def move_tenant(
    shards: ShardSet, tenant: str | None, target: str, progress: Progress = lambda _done, _all: None
) -> MoveResult:
    """Move a tenant to a shard, or go on with a move of it that was interrupted; None is the items without a tenant.

    Raises:
        CollectionBusyError: another tenant is being moved, a run of the tenant is pending, or another process goes on
            with the move.
        CollectionError: there is no such shard.
        ShardDownError: a shard cannot be reached; the tenant stays where it is.
    """
    known = shards.reload()
    if target not in known.ring:
        names = ", ".join(known.ring)
        raise CollectionError("the shards", f"there is no shard {target!r}; the shards are {names}.")
    require_all(shards, known)
    source = known.shard_of(tenant)
    if known.move is None and source == target:
        return MoveResult(tenant=tenant, source=source, target=target, copied=0)
    if known.move is not None and (known.move.digest, known.move.target) != (digest_of(tenant), target):
        raise CollectionBusyError("the shards", in_progress(known.move))
    if known.move is None:
        _check_free(shards, Tenant(known.by, tenant), source, target)
    move = known.move or Move(digest=digest_of(tenant), tenant=tenant, source=source, target=target, phase=Phase.COPY)
    if move.phase in (Phase.CLEAN, Phase.UNDO):
        recover(shards)
        return move_tenant(shards, tenant, target, progress)
    # Also where it goes on: the process that began it, if it lives, cannot write with its version any more.
    if not shards.change(known, known.changed(move=replace(move, phase=Phase.COPY))):
        raise CollectionBusyError("the shards", "the map was changed by another process; nothing was moved: try again.")
    try:
        copied = _Copy(shards, Tenant(known.by, tenant), progress).run()
    except StaleMapError as error:
        raise CollectionBusyError("the shards", "another process goes on with the move.") from error
    _finish(shards)
    return MoveResult(tenant=tenant, source=source, target=target, copied=copied)


def _check_free(shards: ShardSet, tenant: Tenant, source: str, target: str) -> None:
    """Refuse a move that cannot succeed: of a tenant with a pending run, or one whose ids others use in the target."""
    if shards[source].has_pending(tenant):
        raise CollectionBusyError("the shards", _PENDING)
    there = as_collection(shards[target])
    for ids in _batched(list(shards[source].signatures(tenant)), _BATCH):
        for item in there.get(ids):
            if getattr(item.scope, tenant.by) != tenant.value:
                raise CollectionError(
                    "the shards", f"{item.id!r} is an item of another {tenant.by} in {target!r} too; nothing was moved."
                )


def require_all(shards: ShardSet, known: ShardMap) -> None:
    """Raise `ShardDownError` where a shard cannot be reached."""
    for name in known.members:
        shards[name].shard_map_version()


def in_progress(move: Move) -> str:
    """Return why a second move has to wait, and the way out."""
    name = "the items without a tenant are" if move.tenant is None else f"tenant {move.tenant!r} is"
    return (
        f"{name} being moved from {move.source!r} to {move.target!r}: one move at a time. If it was interrupted, ask "
        "for the same move again, or cancel it (`devmem shards move ... --cancel`)."
    )


class _Copy:
    """Copies a tenant until the target has all of it, and decides the move."""

    def __init__(self, shards: ShardSet, tenant: Tenant, progress: Progress) -> None:
        self._shards, self._tenant, self._progress = shards, tenant, progress
        self._copied = 0

    def run(self) -> int:
        known = self._shards.map
        move = _move_of(known)
        self._shards[move.target].add_marks(self._shards[move.source].stored_marks())
        for _ in range(_MOST_ROUNDS):
            if self._copy_difference(known, move) <= _FEW:
                break
        while not self._decided(known):
            # Someone did not want to wait any longer: the move goes on from there.
            known = self._shards.map
        return self._copied

    def _decided(self, known: ShardMap) -> bool:
        """Let writers wait, copy the rest, and decide the move; return whether it is decided."""
        move = _move_of(known)
        if move.phase is not Phase.FREEZE:
            if not self._shards.change(known, known.changed(move=replace(move, phase=Phase.FREEZE))):
                raise StaleMapError(self._shards.map.version)
            known = self._shards.map
        try:
            self._copy_rest(known, move)
        except StaleMapError:
            current = self._shards.reload()
            if current.move is None or current.move.digest != move.digest or current.move.phase is not Phase.COPY:
                raise
            return False
        except BaseException:
            # Ctrl-C too: the writers of the tenant wait until the map is thawed.
            self._shards.thaw(known)
            raise
        exceptions, due = known.placed(self._tenant.value, move.target)
        decided = known.changed(exceptions=exceptions, due=due, move=replace(move, phase=Phase.CLEAN))
        return self._shards.change(known, decided, everywhere=False)

    def _copy_rest(self, known: ShardMap, move: Move) -> None:
        """Copy what changed since the last comparison, while writers wait."""
        source = self._shards[move.source]
        if source.has_pending(self._tenant):
            raise CollectionBusyError("the shards", _PENDING)
        self._copy_difference(known, move)
        # Those of what was erased while it was copied.
        self._shards[move.target].add_marks(source.stored_marks())

    def _copy_difference(self, known: ShardMap, move: Move) -> int:
        """Copy the items that differ; return their number."""
        source, target = self._shards[move.source], self._shards[move.target]
        there, copied = source.signatures(self._tenant), target.signatures(self._tenant)
        wrong = [item_id for item_id, versions in there.items() if copied.get(item_id) != versions]
        embedded = {item_id: None for item_id in wrong if _only_waits(there[item_id], copied.get(item_id, ()))}
        gone = [item_id for item_id in copied if item_id not in there]
        with expecting_map(known.version):
            for ids in _batched(gone, _BATCH):
                target.replace_versions(self._tenant, ids, [])
            for ids in _batched(list(embedded), _BATCH):
                as_collection(target).set_embeddings(as_collection(source).embeddings(ids))
            for ids in _batched([item_id for item_id in wrong if item_id not in embedded], _BATCH):
                versions = source.stored_versions(self._tenant, ids)
                named = {run for version in versions for run in (version.run, version.end_run) if run is not None}
                target.replace_versions(self._tenant, ids, versions, source.stored_runs(named))
                self._copied += len(ids)
                self._progress(self._copied, max(len(there), self._copied))
        return len(wrong) + len(gone)


def _batched(ids: Sequence[str], size: int) -> Iterator[list[str]]:
    """Yield the ids in batches."""
    left = iter(ids)
    while some := list(islice(left, size)):
        yield some


def as_collection(shard: object) -> Collection:
    """Return a shard as the collection that it is."""
    assert isinstance(shard, Collection)  # noqa: S101 - every shard is one
    return shard


def _move_of(known: ShardMap) -> Move:
    if known.move is None:
        raise StaleMapError(known.version)
    return known.move


def _only_waits(there: Signature, copied: Signature) -> bool:
    """Whether versions differ only in that the copy of the current one still waits for its embeddings."""
    if len(there) != len(copied) or not there or not copied[-1][2] or there[-1][2]:
        return False
    return there[:-1] == copied[:-1] and there[-1][:2] == copied[-1][:2] and there[-1][1] is None


def cancel_move(shards: ShardSet) -> Move | None:
    """Cancel the move that is in progress and return it; None where none is, or it was decided already."""
    known = shards.reload()
    if known.move is None or known.move.phase in (Phase.CLEAN, Phase.UNDO):
        recover(shards)
        return None
    require_all(shards, known)
    if not shards.change(known, known.changed(move=replace(known.move, phase=Phase.UNDO))):
        return cancel_move(shards)
    _finish(shards)
    return known.move


def recover(shards: ShardSet) -> None:
    """Finish what a killed process left of a move that was decided, or given up; where that fails, it is left."""
    if shards.map.move is None or shards.map.move.phase not in (Phase.CLEAN, Phase.UNDO):
        return
    try:
        _finish(shards)
    except (CollectionError, StaleMapError) as error:
        _LOG.warning("what is left of a move between shards is erased when the store is next opened: %s", error)


def _finish(shards: ShardSet) -> None:
    """Erase what no reader sees of a tenant that has moved, or stayed, and end the move."""
    known = shards.map
    if known.move is None or known.move.phase not in (Phase.CLEAN, Phase.UNDO):
        return
    name = known.move.left_over
    shard, tenant = shards[name], Tenant(known.by, known.move.tenant)
    # Whoever reads there from now on learns that the tenant is elsewhere.
    shards.bring_up_to_date(name)
    with expecting_map(known.version):
        while ids := list(shard.signatures(tenant)):
            for some in _batched(ids, _BATCH):
                shard.replace_versions(tenant, some, [])
        # The log, the index snapshot and the attachments, as after any erasure.
        shard.finish_erasure(shard.begin_erasure(EraseRequest(ids=())))
    if not shards.change(known, known.changed(move=None), everywhere=False):
        _finish(shards)
