"""The ring of a sharded store: shards that join it and take their share, and shards that are drained of their tenants.

The ring changes in one change of the map, while the writers of the tenants that it concerns wait: those that have
anything in a shard stay there as exceptions, and are moved one after the other, each while it is read and written. So
each step can be repeated, and what was interrupted goes on when it is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from devmem.errors import CollectionBusyError, CollectionError, CollectionInUseError
from devmem.redaction import location_without_credentials
from devmem.storage.protocol import ExportLog
from devmem.storage.sharding.moving import (
    MoveResult,
    Progress,
    as_collection,
    in_progress,
    move_tenant,
    recover,
    require_all,
)
from devmem.storage.sharding.shard_map import ShardMap, digest_of, home_of
from devmem.storage.sharding.shard_set import ShardSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatus:
    """State of one shard."""

    name: str
    location: str
    """User and password of a URL are masked."""
    state: str
    """`ok`, `new` for one that has not joined yet, or why it cannot be reached."""
    items: int = 0
    size_bytes: int = 0
    tenants: int = 0


def join_shards(shards: ShardSet) -> tuple[str, ...]:
    """Let the shards that the configuration names and the map does not take their share; return their names.

    New tenants go there at once. Those that have items stay where they are until `rebalance` moves them. A shard that
    was drained does not join.
    """
    known = shards.reload()
    new = _new_shards(shards, known)
    if not new:
        return ()
    for name in new:
        joining = as_collection(shards[name])
        found = shards[name].shard_map()
        other = found is not None and ShardMap.from_bytes(found, joining.info().location).id != known.id
        if other or joining.info().items:
            raise CollectionInUseError(joining.info().location, "holds items already: a shard that joins is empty.")
    return new if _change_ring(shards, known, (*known.ring, *new)) else join_shards(shards)


def _new_shards(shards: ShardSet, known: ShardMap) -> tuple[str, ...]:
    out = (*known.members, *known.drained)
    return tuple(name for name in shards.config.shards if name not in out)


def _change_ring(shards: ShardSet, known: ShardMap, ring: tuple[str, ...]) -> bool:
    """Replace the ring, and mark the tenants that belong elsewhere as due; return whether the map was still that one.

    A shard that leaves the ring is draining from then on.

    Raises:
        CollectionBusyError: a tenant is being moved.
        ShardDownError: a shard cannot be reached.
    """
    if known.move is not None:
        raise CollectionBusyError("the shards", in_progress(known.move))
    require_all(shards, known)
    if not shards.change(known, known.changed(joining=ring)):
        return False
    known = shards.map
    try:
        changed = _with_ring(shards, known, ring)
    except BaseException:
        # Ctrl-C too: the writers of these tenants wait until the map is thawed.
        shards.thaw(known)
        raise
    return shards.change(known, changed, everywhere=False)


def _with_ring(shards: ShardSet, known: ShardMap, ring: tuple[str, ...]) -> ShardMap:
    """Return the map with another ring, once what is recorded beside items is where their tenants may go."""
    leaving = [name for name in known.ring if name not in ring]
    # A tenant without anything in a shard that leaves the ring needs no exception.
    exceptions = {digest: name for digest, name in known.exceptions.items() if name not in leaving}
    due = dict.fromkeys(known.due)
    for name, tenant, _ in _tenants(shards, known):
        digest = digest_of(tenant)
        if known.shard_of(tenant) != name:
            continue
        if home_of(digest, ring) == name:
            exceptions.pop(digest, None)
        elif digest not in known.exceptions or name in leaving:
            exceptions[digest] = name
            due[digest] = None
    for source in known.members:
        for target in ring:
            if source != target and (source in leaving or target not in known.ring):
                _copy_records(shards, source, target)
    return known.changed(
        ring=ring,
        joining=(),
        draining=tuple(name for name in known.members if name not in ring),
        anchor=known.anchor if known.anchor in ring else min(ring),
        exceptions=exceptions,
        due=tuple(digest for digest in due if digest in exceptions),
    )


def _copy_records(shards: ShardSet, source: str, target: str) -> None:
    """Record in a shard what another one knows of texts that stay erased, and of exports."""
    shards[target].add_marks(shards[source].stored_marks())
    given, taken = shards[source], shards[target]
    # Databases of PostgreSQL record none.
    if isinstance(given, ExportLog) and isinstance(taken, ExportLog):
        known = taken.exports()
        for export in given.exports():
            if export not in known:
                taken.record_export(export)


def _tenants(shards: ShardSet, known: ShardMap) -> Iterator[tuple[str, str | None, int]]:
    """Yield each shard, a tenant that has anything in it, and the number of its items."""
    for name in known.members:
        hidden = known.hidden(name)
        for tenant, items in shards[name].tenants(known.by).items():
            if hidden is None or tenant != hidden.value:
                yield name, tenant, items


def due_moves(shards: ShardSet) -> list[tuple[str | None, str, str, int]]:
    """Return the tenants that a rebalance moves: name, source, target and number of items, the smallest first.

    That includes the moves that a shard which has not joined yet would cause.
    """
    known = shards.reload()
    ring = (*known.ring, *_new_shards(shards, known))
    found = []
    for name, tenant, items in _tenants(shards, known):
        digest = digest_of(tenant)
        is_named = digest in known.exceptions and digest not in known.due
        target = home_of(digest, ring)
        if known.shard_of(tenant) == name and target != name and not is_named:
            found.append((tenant, name, target, items))
    return sorted(found, key=_by_size)


def _by_size(move: tuple[str | None, str, str, int]) -> tuple[int, str]:
    return move[3], move[0] or ""


def rebalance(shards: ShardSet, progress: Progress = lambda _done, _all: None) -> list[MoveResult]:
    """Let new shards join, and move the tenants that are due, one after the other; return the moves.

    Interrupted, it goes on where it stopped.
    """
    recover(shards)
    join_shards(shards)
    return _move_each(shards, due_moves(shards), progress)


def _move_each(
    shards: ShardSet, moves: Sequence[tuple[str | None, str, str, int]], progress: Progress
) -> list[MoveResult]:
    """Move tenants one after the other; `progress` is told the items of all of them."""
    done: list[MoveResult] = []
    before, every = 0, sum(max(items, 0) for *_, items in moves)

    def show(copied: int, _of_tenant: int) -> None:
        progress(before + copied, max(every, before + copied))

    for tenant, _, target, items in moves:
        show(0, items)
        done.append(move_tenant(shards, tenant, target, show))
        before += max(items, done[-1].copied)
    show(0, 0)
    return done


def drain(shards: ShardSet, name: str, progress: Progress = lambda _done, _all: None) -> list[MoveResult]:
    """Move every tenant out of a shard, and take it out of the store; return the moves.

    From the beginning no new tenant comes to it; in the end the configuration may leave it out. Interrupted, it goes
    on where it stopped.

    Raises:
        CollectionBusyError: another tenant is being moved, or one of the shard has a pending run.
        CollectionError: there is no such shard, no other one is left, or a tenant cannot be moved.
        ShardDownError: a shard cannot be reached; tenants stay where they are.
    """
    recover(shards)
    known = shards.reload()
    _check_name(known, name)
    if name in known.drained:
        shards.bring_up_to_date(name)
        return []
    if known.ring == (name,):
        raise CollectionError(
            "the shards", f"{name!r} is the only shard that takes tenants: add another one, and `rebalance`, first."
        )
    if name in known.ring and not _change_ring(shards, known, tuple(one for one in known.ring if one != name)):
        return drain(shards, name, progress)
    done: list[MoveResult] = []
    while not _leave(shards, name):
        done += _move_each(shards, _moves_out_of(shards, name), progress)
    return done


def _check_name(known: ShardMap, name: str) -> None:
    if name not in (*known.members, *known.drained):
        names = ", ".join(known.members)
        raise CollectionError("the shards", f"there is no shard {name!r}; the shards are {names}.")


def _moves_out_of(shards: ShardSet, name: str) -> list[tuple[str | None, str, str, int]]:
    """Return the moves that empty a shard, first the one that was interrupted."""
    known = shards.reload()
    moves, move = [], known.move
    for tenant, items in shards[name].tenants(known.by).items():
        if move is not None and move.source == name and move.tenant == tenant:
            moves.append((tenant, name, move.target, -1))
        elif known.shard_of(tenant) == name:
            moves.append((tenant, name, home_of(digest_of(tenant), known.ring), items))
        else:
            raise CollectionError(
                shards.config.shards[name],
                f"holds items of {known.by} {tenant!r}, who lives in {known.shard_of(tenant)!r}: written past "
                "the map of the shards, and would be lost; export them from there, and delete them.",
            )
    return sorted(moves, key=_by_size)


def _leave(shards: ShardSet, name: str) -> bool:
    """Take an empty shard out of the store; return False where something is left in it."""
    known = shards.reload()
    if name in known.drained:
        # Another process was faster.
        return True
    if name not in known.draining:
        raise CollectionBusyError("the shards", f"another process has cancelled that {name!r} is drained.")
    if shards[name].tenants(known.by):
        return False
    if known.move is not None:
        raise CollectionBusyError("the shards", in_progress(known.move))
    # A tenant that has nothing there now may still be an exception, and write there until the writers wait.
    if not shards.change(known, known.changed(joining=known.ring)):
        return False
    known = shards.map
    if shards[name].tenants(known.by):
        shards.thaw(known)
        return False
    exceptions = {digest: shard for digest, shard in known.exceptions.items() if shard != name}
    left = known.changed(
        joining=(),
        draining=tuple(one for one in known.draining if one != name),
        drained=(*known.drained, name),
        exceptions=exceptions,
        due=tuple(digest for digest in known.due if digest in exceptions),
    )
    return shards.change(known, left, everywhere=False)


def cancel_drain(shards: ShardSet, name: str) -> None:
    """Let a shard that is drained, or was, take tenants again; `rebalance` moves those back that belong there."""
    known = shards.reload()
    _check_name(known, name)
    if name in known.draining:
        done = _change_ring(shards, known, (*known.ring, name))
    elif name in known.drained:
        done = shards.change(known, known.changed(drained=tuple(one for one in known.drained if one != name)))
    else:
        return
    if not done:
        cancel_drain(shards, name)


def statuses(shards: ShardSet) -> list[ShardStatus]:
    """Return the state of every shard that the configuration names."""
    known = shards.reload()
    return [_status(shards, known, name) for name in shards.config.shards]


def _status(shards: ShardSet, known: ShardMap, name: str) -> ShardStatus:
    location = location_without_credentials(shards.config.shards[name])
    if name not in known.members:
        return ShardStatus(name=name, location=location, state="drained" if name in known.drained else "new")
    try:
        info = as_collection(shards[name]).info()
        tenants = sum(1 for _ in _tenants(shards, replace(known, ring=(name,), draining=())))
    except CollectionError as error:
        return ShardStatus(name=name, location=location, state=str(shards.note_outage(name, error)))
    return ShardStatus(
        name=name,
        location=info.location,
        state="draining" if name in known.draining else "ok",
        items=info.items,
        size_bytes=info.size_bytes,
        tenants=tenants,
    )


def tenants_in(shards: ShardSet, names: Sequence[str]) -> list[tuple[str, str | None, int]]:
    """Return the tenants that have anything in some shards, with their numbers of items, the largest first."""
    known = replace(shards.map, ring=tuple(names), draining=())
    return sorted(_tenants(shards, known), key=lambda each: (each[0], -each[2]))
