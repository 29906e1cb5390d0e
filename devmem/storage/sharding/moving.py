"""Moving a tenant to another shard while it is read and written.

The versions of both sides are compared, and the items that differ are replaced in the target with their whole history,
until few are left. Then writers of the tenant wait while the rest is copied, and one change of the map decides that the
tenant lives in the target. Where writers are faster than the copy, they wait now and then before that, so that any move
ends; `Pace` decides when, and how long. Each step can be repeated: a move that was killed goes on when it is asked for
again, and what is left to be erased is erased by whoever opens the store next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

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
HOLD, LONGEST_HOLD = 1.0, 2.0
"""Seconds of copying for which writers of the tenant wait at a time: at first, and where they are much faster."""
WINDOW, LEAST_WINDOW = 0.4, 0.05
"""Seconds for which they go on between two such times: at most, and at least."""
_HEARTBEAT: Final = 2.0
"""Seconds of a comparison after which writers that wait are shown that the move goes on, less than `PATIENCE`."""
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
    longest_wait: float = 0.0
    """Longest time that writers of the tenant had to wait at once, in seconds."""


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
    pace = Pace()
    copy = _Copy(shards, Tenant(known.by, tenant), progress, pace)
    try:
        copy.run()
    except StaleMapError as error:
        raise CollectionBusyError("the shards", "another process goes on with the move.") from error
    _finish(shards)
    return MoveResult(tenant=tenant, source=source, target=target, copied=copy.copied, longest_wait=pace.longest)


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


class Pace:
    """Decides when the writers of a tenant wait, so that its copy ends however fast they write.

    They go on as long as each comparison finds at most half of the differences of the one before, until few are left.
    Once one does not, they wait while the copy goes on, and go on for a window while the copy waits, in turn. The first
    window is as long as they would write a quarter of what is copied in the meantime; each further comparison that does
    not find half as many differences halves it, and in the end they wait for twice as long.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Start with no writer waiting; `clock` returns seconds, and `sleep` waits for some."""
        self._clock, self._sleep = clock, sleep
        self._hold, self._window = HOLD, WINDOW
        self._last: int | None = None
        """Number of differences that the last comparison found."""
        self._are_fast = False
        """Whether writers have to wait now and then for the differences to shrink."""
        self._held_since: float | None = None
        self._copying_since = 0.0
        self.longest = 0.0
        """Longest time that writers waited at once, in seconds."""

    def compared(self, differing: int) -> None:
        """Take the number of differences that a comparison found; those of the one before were copied."""
        if self._last is not None and differing > max(self._last // 2, _FEW):
            if self._window <= LEAST_WINDOW:
                self._hold = LONGEST_HOLD
            wanted = self._window / 2 if self._are_fast else HOLD * max(self._last, _FEW) / (4 * differing)
            self._window = max(min(wanted, self._window), LEAST_WINDOW)
            self._are_fast = True
        self._last, self._copying_since = differing, self._clock()

    def should_hold(self, left: int) -> bool:
        """Whether writers should begin to wait, with a number of known differences left."""
        # Without any, before the comparison that may be the last one.
        return self._are_fast or (not left and self._last is not None and self._last <= _FEW)

    def should_release(self) -> bool:
        """Whether writers that wait should go on: a comparison does not count, as it would never be the last one."""
        return self._held_since is not None and self._clock() - self._copying_since >= self._hold

    def held(self) -> None:
        """Note that writers wait from now on."""
        self._held_since = self._copying_since = self._clock()

    def released(self) -> None:
        """Note that writers go on."""
        if self._held_since is not None:
            self.longest = max(self.longest, self._clock() - self._held_since)
        self._held_since = None

    def let_write(self) -> None:
        """Wait for as long as writers go on."""
        self._sleep(self._window)


_Step: TypeAlias = Callable[[list[str]], None]
"""Makes the target agree with the source in some items."""


class _Copy:
    """Copies a tenant until the target has all of it, and decides the move."""

    def __init__(self, shards: ShardSet, tenant: Tenant, progress: Progress, pace: Pace) -> None:
        self._shards, self._tenant, self._progress, self._pace = shards, tenant, progress, pace
        self._known, self._move = shards.map, _move_of(shards.map)
        self._source, self._target = shards[self._move.source], shards[self._move.target]
        self._holds = 0
        """Number of times that writers began to wait."""
        self.copied = self._all = 0

    def run(self) -> None:
        """Copy until nothing differs while writers wait, and decide the move."""
        self._target.add_marks(self._source.stored_marks())
        try:
            while not self._round():
                pass
        except StaleMapError:
            raise
        except BaseException:
            # Ctrl-C too: the writers of the tenant wait until the map is thawed.
            self._shards.thaw(self._shards.map)
            raise

    def _round(self) -> bool:
        """Compare, and copy what differs; return whether the move is decided."""
        compared_in = self._holds if self._move.phase is Phase.FREEZE else None
        steps = self._compare()
        self._pace.compared(sum(len(ids) for _, ids in steps))
        for left, (step, ids) in zip(range(len(steps), 0, -1), steps, strict=True):
            if self._pace.should_release():
                self._release()
            self._hold_if_due(left)
            try:
                with expecting_map(self._known.version):
                    step(ids)
            except StaleMapError as error:
                self._go_on_after(error)
                return False
        if self._move.phase is Phase.FREEZE:
            if compared_in == self._holds:
                return self._decided()
            # Writers wait for the next comparison, and have waited already.
            self._release()
        self._hold_if_due(0)
        return False

    def _hold_if_due(self, left: int) -> None:
        """Let the writers of the tenant wait, if it is time; `left` is the number of steps to do."""
        if self._move.phase is not Phase.FREEZE and self._pace.should_hold(left):
            self._hold()
            self._holds += 1
            self._pace.held()

    def _release(self) -> None:
        """Let the writers of the tenant go on for a window."""
        self._shards.thaw(self._known)
        self._go_on_after_thaw()
        self._pace.let_write()

    def _hold(self) -> None:
        """Let the writers of the tenant wait, or go on waiting: they look for a new version of the map."""
        move = replace(self._move, phase=Phase.FREEZE)
        held = self._known.changed(move=move)
        if not self._shards.change(self._known, held):
            raise StaleMapError(self._shards.map.version)
        # Not the newest map: a writer may have thawed it meanwhile.
        self._known, self._move = held, move

    def _go_on_after(self, error: StaleMapError) -> None:
        """Go on with the map of a shard; raises the error where another process has changed the move."""
        if error.version < self._known.version:
            # Whoever changed the map has not come to this shard.
            self._shards.bring_up_to_date(self._move.target)
        elif self._move.phase is Phase.FREEZE:
            # A writer did not want to wait any longer.
            self._go_on_after_thaw()
        else:
            raise error

    def _go_on_after_thaw(self) -> None:
        """Take the map by which writers go on; raises `StaleMapError` where another process has changed the move."""
        current = self._shards.reload()
        move = current.move
        if move is None or move.digest != self._move.digest or move.phase is not Phase.COPY:
            raise StaleMapError(current.version)
        self._pace.released()
        self._known, self._move = current, move

    def _decided(self) -> bool:
        """Decide the move, of which writers wait and nothing differs; return whether it is decided."""
        if self._source.has_pending(self._tenant):
            raise CollectionBusyError("the shards", _PENDING)
        # Those of what was erased while it was copied.
        self._target.add_marks(self._source.stored_marks())
        exceptions, due = self._known.placed(self._tenant.value, self._move.target)
        move = replace(self._move, phase=Phase.CLEAN)
        decided = self._known.changed(exceptions=exceptions, due=due, move=move)
        if not self._shards.change(self._known, decided, everywhere=False):
            self._go_on_after_thaw()
            return False
        self._pace.released()
        return True

    def _compare(self) -> list[tuple[_Step, list[str]]]:
        """Return the steps, by batches of items, after which the target agrees with the source."""
        there, copied = self._signatures()
        self._all = len(there)
        wrong = [item_id for item_id, versions in there.items() if copied.get(item_id) != versions]
        embedded = {item_id: None for item_id in wrong if _only_waits(there[item_id], copied.get(item_id, ()))}
        whole = [item_id for item_id in wrong if item_id not in embedded]
        gone = [item_id for item_id in copied if item_id not in there]
        steps = ((self._remove, gone), (self._embed, list(embedded)), (self._replace, whole))
        return [(step, some) for step, ids in steps for some in _batched(ids, _BATCH)]

    def _signatures(self) -> list[dict[str, Signature]]:
        """Return those of the source and of the target; writers that wait are shown that the move goes on meanwhile."""
        sides = (self._source, self._target)
        asked = [self._shards.executor.submit(side.signatures, self._tenant) for side in sides]
        while wait(asked, timeout=_HEARTBEAT).not_done:
            if self._move.phase is Phase.FREEZE:
                try:
                    self._hold()
                except StaleMapError:
                    self._go_on_after_thaw()
        return [each.result() for each in asked]

    def _remove(self, ids: list[str]) -> None:
        self._target.replace_versions(self._tenant, ids, [])

    def _embed(self, ids: list[str]) -> None:
        as_collection(self._target).set_embeddings(as_collection(self._source).embeddings(ids))

    def _replace(self, ids: list[str]) -> None:
        versions = self._source.stored_versions(self._tenant, ids)
        named = {run for version in versions for run in (version.run, version.end_run) if run is not None}
        self._target.replace_versions(self._tenant, ids, versions, self._source.stored_runs(named))
        self.copied += len(ids)
        self._progress(self.copied, max(self._all, self.copied))


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
