"""A move ends however fast its tenant is written to: writers wait for a bounded time, nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context
from itertools import count, groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.config.shards import ShardsConfig
from devmem.errors import CollectionUnwritableError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.storage.opening import CollectionOptions
from devmem.storage.shard import Signature, Tenant
from devmem.storage.sharding import moving
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import HOLD, LONGEST_HOLD, Pace, move_tenant
from devmem.storage.sharding.opener import open_shards
from devmem.storage.sharding.shard_map import Phase

Open = Callable[[], ShardedCollection]
_NUMBERS = count()
_BATCH = 20
_SECONDS = 0.1
"""Seconds that a batch takes, by the clock of these tests."""
_ANN = Filter(scope=Scope(user="ann"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open the same two shards, in files or on a server; batches are small."""
    if request.param == "sqlite":
        shards = {name: str(tmp_path / f"{name}.db") for name in "ab"}
    else:
        server, number = request.getfixturevalue("postgres_server"), next(_NUMBERS)
        shards = {name: server.url(store=f"fast writers {name} {number}") for name in "ab"}
    monkeypatch.setattr(moving, "_BATCH", _BATCH)
    monkeypatch.setattr(moving, "_FEW", _BATCH)
    everything: list[ShardedCollection] = []

    def make() -> ShardedCollection:
        everything.append(open_shards(ShardsConfig(shards=shards).url(), CollectionOptions()))
        return everything[-1]

    yield make
    for each in everything:
        each.close()


class _Writer:
    """Writes a number of items for each batch that is copied, unless the writers of the tenant wait."""

    def __init__(self, store: ShardedCollection, each: int) -> None:
        self.store, self._each = store, each
        self.ids: list[str] = []
        self.phases: list[Phase] = []
        """Phase of the move after each batch, and while the copy waits."""
        self.now = 0.0

    def write(self, number: int) -> None:
        items = [
            MemoryItem(id=f"ann {at}", content_summary=f"train {at} leaves late", scope=Scope(user="ann"))
            for at in range(len(self.ids), len(self.ids) + number)
        ]
        assert all(self.store.add(items))
        self.ids += [item.id for item in items]

    def after_a_batch(self, _copied: int, _all: int) -> None:
        # As another process: it expects no map.
        Context().run(self._after_a_batch)

    def _after_a_batch(self) -> None:
        self.now += _SECONDS
        move = self.store.shards.reload().move
        assert move is not None
        self.phases.append(move.phase)
        assert len(self.phases) < 400, "the move does not end"
        if move.phase is Phase.COPY:
            self.write(self._each)

    def is_free(self) -> bool:
        """Whether writers of the tenant do not have to wait."""
        return not self.store.shards.reload().is_frozen("ann")

    def pace(self) -> Pace:
        """Return a pace by the clock of these tests; while the copy waits, the items of as many batches are written."""
        return Pace(lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.phases.append(Phase.COPY)
        self.write(round(self._each * seconds / _SECONDS))


def _other(store: ShardedCollection) -> str:
    return "b" if store.shards.map.shard_of("ann") == "a" else "a"


def _check(store: ShardedCollection, writer: _Writer) -> None:
    """Check that every item is there once, and that the tenant is written to."""
    writer.write(1)
    assert sorted(item.id for item in store.scan(_ANN)) == sorted(writer.ids)
    assert store.count() == sum(store.shards[name].count() for name in "ab") == len(writer.ids)
    assert store.shards.map.move is None


@pytest.mark.parametrize("faster", [2, 8])
def test_a_move_ends_under_a_writer_that_never_pauses(
    opened: Open, monkeypatch: pytest.MonkeyPatch, faster: int
) -> None:
    """It writes two or eight items for each that is copied."""
    store, writer = opened(), _Writer(opened(), faster * _BATCH)
    writer.write(100)
    pace = writer.pace()
    monkeypatch.setattr(moving, "Pace", lambda: pace)
    target = _other(store)
    found = move_tenant(store.shards, "ann", target, writer.after_a_batch)
    assert store.shards.map.shard_of("ann") == target
    _check(store, writer)
    waits = [len(list(batches)) for phase, batches in groupby(writer.phases) if phase is Phase.FREEZE]
    assert waits
    assert max(waits) * _SECONDS <= LONGEST_HOLD + _SECONDS
    assert found.longest_wait == pace.longest <= LONGEST_HOLD + 2 * _SECONDS


def test_writers_slower_than_the_copy_wait_once(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store, writer = opened(), _Writer(opened(), _BATCH // 4)
    writer.write(200)
    pace = writer.pace()
    monkeypatch.setattr(moving, "Pace", lambda: pace)
    move_tenant(store.shards, "ann", _other(store), writer.after_a_batch)
    _check(store, writer)
    # All but what changed last is copied before.
    assert [phase for phase, _ in groupby(writer.phases)] in ([Phase.COPY], [Phase.COPY, Phase.FREEZE])
    assert pace.longest <= 1.5 * _SECONDS


def test_a_writer_that_does_not_want_to_wait_any_longer_goes_on(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store, writer = opened(), _Writer(opened(), 2 * _BATCH)
    writer.write(100)
    thawed: list[int] = []

    def thaw(copied: int, every: int) -> None:
        known = writer.store.shards.reload()
        if known.move is not None and known.move.phase is Phase.FREEZE and len(thawed) < 3:
            Context().run(writer.store.shards.thaw, known)
            thawed.append(copied)
        writer.after_a_batch(copied, every)

    monkeypatch.setattr(moving, "Pace", writer.pace)
    move_tenant(store.shards, "ann", _other(store), thaw)
    assert len(thawed) == 3
    _check(store, writer)


def test_a_long_comparison_keeps_writers_waiting(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one that gives up after some seconds would undo each hold, and the move of a large tenant would not end."""
    store, writer = opened(), _Writer(opened(), 0)
    writer.write(30)
    target = _other(store)
    compare, seen = store.shards[target].signatures, list[int]()

    def comparing(tenant: Tenant) -> dict[str, Signature]:
        found = compare(tenant)
        while not writer.is_free() and len(seen) < 3:
            if (version := writer.store.shards.map.version) not in seen:
                seen.append(version)
        return found

    monkeypatch.setattr(moving, "_HEARTBEAT", 0.01)
    monkeypatch.setattr(store.shards[target], "signatures", comparing)
    move_tenant(store.shards, "ann", target)
    assert len(seen) == 3
    _check(store, writer)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CollectionUnwritableError("the target", "its disk is full.")])
def test_what_ends_a_move_while_writers_wait_lets_them_go_on(
    opened: Open, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Ctrl-C, and a target that fails; asked for again, the move goes on."""
    store, writer = opened(), _Writer(opened(), 2 * _BATCH)
    writer.write(100)
    source, target = store.shards.map.shard_of("ann"), _other(store)

    def fail(copied: int, every: int) -> None:
        writer.after_a_batch(copied, every)
        if writer.phases[-1] is Phase.FREEZE:
            raise error

    monkeypatch.setattr(moving, "Pace", writer.pace)
    with pytest.raises(type(error)):
        move_tenant(store.shards, "ann", target, fail)
    move = writer.store.shards.reload().move
    assert move is not None
    assert move.phase is Phase.COPY
    assert writer.store.shards.map.shard_of("ann") == source
    writer.write(10)
    assert len(list(store.scan(_ANN))) == store.count() == len(writer.ids)
    move_tenant(store.shards, "ann", target, writer.after_a_batch)
    assert store.shards.map.shard_of("ann") == target
    _check(store, writer)


@given(faster=st.floats(0, 15), items=st.integers(0, 3_000), comparing=st.floats(0, 3))
def test_writers_wait_for_a_bounded_time_and_any_copy_ends(faster: float, items: int, comparing: float) -> None:
    """By a model of it: a batch of 200 takes 0.1 s, and writers write `faster` times as much meanwhile."""
    model = _Model(faster, items, comparing)
    for _ in range(60):
        if model.compares_and_copies():
            break
    else:
        raise AssertionError("it does not end")
    assert model.pace.longest <= LONGEST_HOLD + comparing + 0.21
    if faster <= 0.25 and comparing < 0.04:
        assert model.pace.longest <= HOLD


class _Model:
    """A tenant that is copied at the pace that is tested."""

    def __init__(self, faster: float, items: int, comparing: float) -> None:
        self._faster, self._comparing = faster, comparing
        self._now, self._is_held, self._differing = 0.0, False, float(items)
        self.pace = Pace(lambda: self._now, self._pass)

    def _pass(self, seconds: float) -> None:
        self._now += seconds
        self._differing += 0 if self._is_held else 2_000 * self._faster * seconds

    def _hold(self, left: int) -> None:
        if not self._is_held and self.pace.should_hold(left):
            self.pace.held()
            self._is_held = True

    def _release(self) -> None:
        self.pace.released()
        self._is_held = False
        self.pace.let_write()

    def compares_and_copies(self) -> bool:
        """Do what is done between two comparisons; return whether nothing differs while writers wait."""
        was_released = not self._is_held
        self._pass(self._comparing)
        batches, self._differing = -(-int(self._differing) // 200), self._differing % 1
        self.pace.compared(batches * 200)
        for left in range(batches, 0, -1):
            if self.pace.should_release():
                self._release()
                was_released = True
            self._hold(left)
            self._pass(0.1)
        if self._is_held and not was_released:
            self.pace.released()
            return True
        if self._is_held:
            self._release()
        self._hold(0)
        return False
