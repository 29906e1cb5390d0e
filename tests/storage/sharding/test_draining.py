"""Draining a shard while the store is read and written, and archived items that move with their tenants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import devmem
from devmem.config.shards import ShardsConfig
from devmem.errors import CollectionBusyError, CollectionDamagedError, CollectionError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.storage.opening import CollectionOptions
from devmem.storage.protocol import ExportLog, ExportRecord
from devmem.storage.sharding import ring
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import move_tenant
from devmem.storage.sharding.opener import open_shards
from devmem.storage.sharding.ring import cancel_drain, drain, join_shards, rebalance, statuses, tenants_in
from devmem.storage.sharding.shard_map import ShardMap, digest_of, home_of
from tools.postgres_server import PostgresServer

Open = Callable[..., ShardedCollection]
_NUMBERS = count()


@pytest.fixture(params=["files", pytest.param("servers", marks=pytest.mark.postgres)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open the store on some shards, files or stores of a server; every opening is closed at the end."""
    everything: list[ShardedCollection] = []
    number = next(_NUMBERS)

    def place(name: str) -> str:
        if request.param == "files":
            return str(tmp_path / f"{name}.db")
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.url(store=f"drain {name} {number}")

    def make(names: str = "abc") -> ShardedCollection:
        url = ShardsConfig(shards={name: place(name) for name in names}).url()
        everything.append(open_shards(url, CollectionOptions()))
        return everything[-1]

    yield make
    for each in everything:
        each.close()


def _items(user: str | None, number: int, start: int = 0) -> list[MemoryItem]:
    return [
        MemoryItem(id=f"{user}-{at}", content_summary=f"{user} takes train {at}", scope=Scope(user=user), created_at=at)
        for at in range(start, start + number)
    ]


def _users_in(store: ShardedCollection, name: str, number: int) -> list[str]:
    """Return users whom hashing puts into a shard."""
    users = (f"user {at}" for at in range(1_000))
    return [user for user in users if store.shards.map.shard_of(user) == name][:number]


def _ids(store: ShardedCollection) -> list[str]:
    return sorted(item.id for item in store.scan())


def _of(user: str) -> Filter:
    return Filter(scope=Scope(user=user))


def _archived(store: ShardedCollection, where: Filter | None = None) -> list[str]:
    with closing(store.archived()) as old:
        assert old.count(where) == len(list(old.scan(where)))
        return sorted(item.id for item in old.scan(where))


def test_everything_leaves_a_drained_shard(opened: Open) -> None:
    """Also what is archived, deleted, by name in it, unscoped or only recorded; it was where the map is decided."""
    store = opened()
    assert store.shards.map.anchor == "a"
    live, old, gone = _users_in(store, "a", 3)
    (named,) = _users_in(store, "b", 1)
    for user in (live, old, gone, named, None):
        store.add(_items(user, 3))
    for tenant in (named, None):
        move_tenant(store.shards, tenant, "a")
    assert store.archive([f"{old}-{at}" for at in range(3)]) == 3
    store.delete(ids=[f"{gone}-{at}" for at in range(3)])
    (forgotten,) = _items(live, 1, start=7)
    store.keep_tombstones([forgotten])
    # As one that was made when the store had this shard alone; PostgreSQL records none.
    exports = []
    if isinstance(store.shards["a"], ExportLog):
        exports.append(ExportRecord(kind="export", place="notes.json", made_at=5.0, items=3))
        store.shards["a"].record_export(exports[0])
    before, history = _ids(store), store.history(f"{gone}-1")
    assert {each.tenant for each in drain(store.shards, "a")} == {live, old, gone, named, None}
    assert [each.state for each in statuses(store.shards)] == ["drained", "ok", "ok"]
    assert store.shards["a"].tenants("user") == {}
    store.close()
    without = opened("bc")
    assert without.shards.map.anchor == "b"
    assert not without.shards.map.exceptions
    assert _ids(without) == before
    assert without.count(_of(named)) == 3
    assert _archived(without) == _archived(without, _of(old)) == [f"{old}-{at}" for at in range(3)]
    assert without.info().archived == 3
    assert without.history(f"{gone}-1") == history
    assert without.exports() == exports
    assert not without.add([forgotten])[0]
    assert [bool(each) for each in without.restore([f"{old}-1", "unknown"])] == [True, False]
    assert without.count(_of(old)) == 1


def test_what_was_forgotten_in_a_drained_shard_stays_out(opened: Open) -> None:
    """Though no tenant moves from it that would take the tombstone along."""
    store = opened()
    (user,) = _users_in(store, "a", 1)
    (item,) = _items(user, 1)
    store.keep_tombstones([item])
    assert drain(store.shards, "a") == []
    assert not store.add([item])[0]
    assert opened("bc").count() == 0


def test_a_store_is_read_and_written_while_a_shard_is_drained(opened: Open) -> None:
    """By processes with the map of before, which follow where the map is decided, too."""
    store, writer, reader = opened(), opened(), opened()
    users = [*_users_in(store, "a", 3), *_users_in(store, "b", 1)]
    store.add([item for user in users for item in _items(user, 40)])
    stop, acknowledged, wrong = Event(), 40, list[object]()

    def write() -> None:
        nonlocal acknowledged
        while not stop.is_set():
            for user in users:
                writer.add(_items(user, 1, start=acknowledged))
            acknowledged += 1

    def read() -> None:
        while not stop.is_set():
            least = acknowledged * len(users)
            ids = _ids(reader)
            if len(ids) < least or len(ids) != len(set(ids)):
                wrong.append((least, len(ids), len(set(ids))))

    threads = [Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        drain(store.shards, "a")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    expected = sorted(item.id for user in users for item in _items(user, acknowledged))
    assert _ids(store) == _ids(opened("bc")) == expected
    writer.add(_items("new", 1))
    assert len(_ids(reader)) == len(expected) + 1


class _StoppedError(Exception):
    """Stands for the death of the process."""


def test_a_drain_goes_on_wherever_it_stopped(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after each change of the map; what is written between is there, too."""
    store = opened()
    (user,) = _users_in(store, "a", 1)
    store.add(_items(user, 2))
    stops = 0
    for at in count(step=3 if "postgres" in store.location else 1):
        stopped, other = opened(), opened()
        change, calls = stopped.shards.change, count()

        def stop(*args: Any, change: Any = change, calls: Any = calls, at: int = at, **options: Any) -> bool:
            is_last = next(calls) == at // 2
            if is_last and at % 2 == 0:
                raise _StoppedError
            done: bool = change(*args, **options)
            if is_last:
                raise _StoppedError
            return done

        monkeypatch.setattr(stopped.shards, "change", stop)
        # A writer that waits for the dead one does not wait long.
        monkeypatch.setattr("devmem.storage.sharding.shard_set.PATIENCE", 0.1)
        try:
            drain(stopped.shards, "a")
        except _StoppedError:
            stops += 1
        else:
            break
        finally:
            stopped.close()
        other.add(_items(user, 1, start=100 + stops))
        assert other.count() == len(_ids(other)) == 2 + stops
        drain(other.shards, "a")
        assert len(_ids(opened("bc"))) == 2 + stops
        cancel_drain(other.shards, "a")
        rebalance(other.shards)
        assert other.shards.map.shard_of(user) == "a"
        other.close()
    assert stops >= 5


def test_a_write_between_the_last_look_and_the_end_is_moved_too(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant that deleted everything is an exception of the shard until the end, and may write there."""
    store, other = opened(), opened()
    (user,) = _users_in(store, "a", 1)
    store.add(_items(user, 1))
    leave, looks = ring._leave, list[str]()

    def leave_late(*args: Any) -> bool:
        if not looks:
            # After the ring has changed, and before the first look.
            other.erase(where=_of(user))
        looks.append("look")
        return leave(*args)

    def write_late(old: ShardMap, new: ShardMap, *, everywhere: bool = True) -> bool:
        if new.joining == new.ring and len(looks) == 1:
            other.add(_items(user, 1, start=1))
        return change(old, new, everywhere=everywhere)

    change = store.shards.change
    monkeypatch.setattr(ring, "_leave", leave_late)
    monkeypatch.setattr(store.shards, "change", write_late)
    drain(store.shards, "a")
    assert len(looks) > 1
    assert _ids(store) == _ids(opened("bc")) == [f"{user}-1"]


def test_a_shard_with_tenants_cannot_be_left_out(opened: Open) -> None:
    store = opened()
    (user,) = _users_in(store, "a", 1)
    store.add(_items(user, 1))
    with pytest.raises(CollectionError, match=r"tenants live in the shard 'a'.*`devmem shards drain MEMORY a`"):
        opened("bc")
    run = store.run("r")
    run.add(_items(user, 1, start=1))
    run.close()
    with pytest.raises(CollectionBusyError, match="pending run"):
        drain(store.shards, "a")
    assert [each.state for each in statuses(store.shards)] == ["draining", "ok", "ok"]
    assert tenants_in(store.shards, ["a"]) == [("a", user, 1)]
    assert _users_in(store, "a", 9) == [user]
    with pytest.raises(CollectionError, match="tenants live in the shard 'a'"):
        opened("bc")
    with pytest.raises(CollectionError, match="no shard 'a'; the shards are b, c"):
        move_tenant(store.shards, "another user", "a")
    store.commit("r")
    drain(store.shards, "a")
    assert opened("bc").count() == 2


def test_what_cannot_be_drained_is_refused(opened: Open) -> None:
    store = opened("ab")
    with pytest.raises(CollectionError, match="no shard 'z'; the shards are a, b"):
        drain(store.shards, "z")
    drain(store.shards, "b")
    assert drain(store.shards, "b") == []
    with pytest.raises(CollectionError, match="'a' is the only shard that takes tenants"):
        drain(store.shards, "a")


def test_a_drained_shard_joins_again_when_it_is_asked_to(opened: Open) -> None:
    store = opened()
    users = _users_in(store, "a", 3)
    for user in users:
        store.add(_items(user, 2))
    drain(store.shards, "a")
    assert join_shards(store.shards) == ()
    assert rebalance(store.shards) == []
    cancel_drain(store.shards, "a")
    assert {each.tenant for each in rebalance(store.shards)} == set(users)
    assert {store.shards.map.shard_of(user) for user in users} == {"a"}
    assert len(_ids(store)) == 6
    # One that has begun, too: tenants that have not moved yet stay.
    run = store.run("r")
    run.add(_items(users[0], 1, start=5))
    with pytest.raises(CollectionBusyError):
        drain(store.shards, "a")
    cancel_drain(store.shards, "a")
    cancel_drain(store.shards, "a")
    assert [each.state for each in statuses(store.shards)] == ["ok", "ok", "ok"]
    run.close()
    store.commit("r")
    rebalance(store.shards)
    assert {store.shards.map.shard_of(user) for user in users} == {"a"}
    assert (store.shards.map.exceptions, store.shards.map.due) == ({}, ())
    assert len(_ids(store)) == 7


def test_a_tenant_with_archived_or_pending_items_alone_is_not_left_behind(opened: Open) -> None:
    """A shard that joins would become the place of a tenant whose archive is elsewhere."""
    store = opened("ab")
    wider = ("a", "b", "c")
    users = [f"user {at}" for at in range(60)]
    archived, pending = [user for user in users if home_of(digest_of(user), wider) == "c"][:2]
    store.add(_items(archived, 2))
    store.archive([f"{archived}-0", f"{archived}-1"])
    run = store.run("r")
    run.add(_items(pending, 1))
    run.close()
    store.close()
    wide = opened("abc")
    join_shards(wide.shards)
    assert _archived(wide, _of(archived)) == [f"{archived}-0", f"{archived}-1"]
    wide.commit("r")
    assert wide.count(_of(pending)) == 1
    assert {each.tenant for each in rebalance(wide.shards)} == {archived, pending}
    assert _archived(wide, _of(archived)) == [f"{archived}-0", f"{archived}-1"]
    assert wide.count(_of(pending)) == 1


def test_archived_items_are_counted_once_during_a_move_and_restored_in_their_shard(opened: Open) -> None:
    store = opened("ab")
    (user,), (other,) = _users_in(store, "a", 1), _users_in(store, "b", 1)
    store.add([*_items(user, 3), *_items(other, 3)])
    assert store.archive([f"{user}-0", f"{other}-0", f"{other}-1"]) == 3
    counted: list[tuple[list[str], int]] = []
    move_tenant(store.shards, user, "b", lambda *_: counted.append((_archived(store), store.count())))
    assert counted
    assert all(found == ([f"{user}-0", f"{other}-0", f"{other}-1"], 3) for found in map(_sorted, counted))
    assert all(map(bool, store.restore([f"{other}-0", f"{user}-0"])))
    assert store.shards["b"].get([f"{user}-0"])
    # The id is used for another tenant meanwhile: it stays archived.
    store.archive([f"{user}-0"])
    move_tenant(store.shards, user, "a")
    store.add([MemoryItem(id=f"{user}-0", content_summary="of another", scope=Scope(user=other), created_at=1.0)])
    assert not store.restore([f"{user}-0"])[0]
    assert store.erase(ids=[f"{other}-1"]) == 1
    assert _archived(store) == [f"{user}-0"]


@pytest.mark.parametrize("decided", [False, True], ids=["copied", "cleaned"])
def test_a_trim_during_a_move_counts_what_readers_see(
    opened: Open, monkeypatch: pytest.MonkeyPatch, decided: bool
) -> None:
    """The copies that no reader sees are older, and are neither counted nor kept in the place of others."""
    store = opened("ab")
    (user,), (other,) = _users_in(store, "a", 1), _users_in(store, "b", 1)
    move_tenant(store.shards, other, "a" if decided else "b")
    store.add([*_items(user, 5), *_items(other, 5, start=5)])
    stopped = "_finish" if decided else "_Copy._decided"
    with monkeypatch.context() as patch:
        patch.setattr(f"devmem.storage.sharding.moving.{stopped}", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move_tenant(store.shards, user, "b")
    left_over = "a" if decided else "b"
    assert store.shards[left_over].count() == 10
    assert store.trim(stored_before=1.0) == 1
    assert store.trim(keep=3) == 6
    assert store.trim(keep=3) == 0
    expected = [f"{other}-{at}" for at in (7, 8, 9)]
    assert _ids(store) == expected
    store.close()
    again = opened("ab")
    move_tenant(again.shards, user, "b")
    assert _ids(again) == expected
    assert sum(again.shards[name].count() for name in "ab") == 3


def _sorted(found: tuple[list[str], int]) -> tuple[list[str], int]:
    users = list(dict.fromkeys(name.rpartition("-")[0] for name in found[0]))
    return sorted(found[0], key=lambda name: (users.index(name.rpartition("-")[0]), name)), found[1]


def test_a_map_of_the_earlier_format_is_read_and_written_until_a_shard_is_drained() -> None:
    earlier = {
        "format": 1, "id": "s", "version": 7, "by": "user", "anchor": "a", "ring": ["a", "b"], "exceptions": {},
        "due": [], "move": None, "joining": [], "unscoped": False,
    }  # fmt: skip
    known = ShardMap.from_bytes(json.dumps(earlier).encode(), "x")
    assert json.loads(known.to_bytes()) == earlier
    drained = known.changed(ring=("b",), draining=("a",))
    assert json.loads(drained.to_bytes())["format"] == 2
    assert ShardMap.from_bytes(drained.to_bytes(), "x") == drained
    assert drained.members == ("b", "a")
    with pytest.raises(CollectionDamagedError, match="upgrade devmem"):
        ShardMap.from_bytes(json.dumps({**earlier, "format": 3}).encode(), "x")


def test_a_shard_that_is_opened_on_its_own_says_so(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    store = opened("ab")
    store.add(_items("ann", 2))
    place = store.shards.config.shards["a"]
    with devmem.open(place, embedding=None):
        pass
    named, told, _ = caplog.text.partition(" is one shard of a store")
    assert told
    assert named.endswith("a.db") or "store=drain+a" in named
