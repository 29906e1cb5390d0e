"""Moving tenants between shards, and letting a shard join, while the store is read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from devmem.errors import CollectionBusyError, CollectionError, CollectionInUseError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.search.query import SearchQuery
from devmem.storage.opening import CollectionOptions
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import _Copy, cancel_move, move_tenant
from devmem.storage.sharding.opener import open_shards
from devmem.storage.sharding.ring import due_moves, join_shards, rebalance, statuses
from devmem.storage.sharding.shard_map import Phase
from devmem.testing import HashEmbedder

Open = Callable[..., ShardedCollection]
_EMBEDDER = HashEmbedder(dimension=16)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the store on some shards; every opening is closed at the end."""
    everything: list[ShardedCollection] = []

    def make(*names: str, **options: Any) -> ShardedCollection:
        url = "shards://user?" + "&".join(f"{name}={tmp_path / name}.db" for name in names or ("a", "b"))
        everything.append(open_shards(url, CollectionOptions(model=_EMBEDDER.identity, **options)))
        return everything[-1]

    yield make
    for each in everything:
        each.close()


def _items(user: str | None, count: int, start: int = 0) -> list[MemoryItem]:
    texts = [f"{user} notes that train {number} leaves late" for number in range(start, start + count)]
    vectors = _EMBEDDER.embed(texts)
    return [
        MemoryItem(
            id=f"{user}-{start + at}", content_summary=text, scope=Scope(user=user), created_at=1000.0 + start + at,
            embedding=vectors[at],
        )
        for at, text in enumerate(texts)
    ]  # fmt: skip


def _ids(store: ShardedCollection, user: str | None) -> list[str]:
    where = Filter(unbound=("user",)) if user is None else Filter(scope=Scope(user=user))
    return [item.id for item in store.scan(where)]


def _other(store: ShardedCollection, user: str | None) -> str:
    return "b" if store.shards.map.shard_of(user) == "a" else "a"


@pytest.mark.parametrize("user", ["ann", "安娜", None])
def test_a_tenant_moves_with_its_history(opened: Open, user: str | None) -> None:
    store = opened()
    store.add([*_items(user, 5), *_items("bob", 3)])
    first = store.get([f"{user}-1"])[0]
    store.delete(ids=[f"{user}-1"])
    store.add([MemoryItem(id=f"{user}-2", content_summary="it was on time", scope=Scope(user=user), created_at=2000.0)])
    before = {item_id: store.history(item_id) for item_id in (f"{user}-1", f"{user}-2")}
    moment = before[f"{user}-1"][0].began.at or 0.0
    target = _other(store, user)
    found = move_tenant(store.shards, user, target)
    assert (found.source, found.target) == (({"a", "b"} - {target}).pop(), target)
    assert store.shards.map.shard_of(user) == target
    assert store.shards.map.move is None
    assert _ids(store, user) == [f"{user}-0", f"{user}-3", f"{user}-4", f"{user}-2"]
    assert {item_id: store.history(item_id) for item_id in before} == before
    was = store.as_of(moment + 1e-6)
    assert was.get([first.id]) == [first]
    was.close()
    left = store.shards[found.source]
    assert [item for item in left.scan() if item.scope.user == user] == []
    assert not left.history(f"{user}-2")


def test_another_process_follows_a_move(opened: Open) -> None:
    """It has the map of before, and neither reads nor writes in the shard that the tenant has left."""
    store, other = opened(), opened()
    store.add(_items("ann", 3))
    assert len(_ids(other, "ann")) == 3
    move_tenant(store.shards, "ann", _other(store, "ann"))
    other.add(_items("ann", 1, start=3))
    assert len(_ids(store, "ann")) == 4
    assert len(_ids(other, "ann")) == 4
    move_tenant(store.shards, "ann", _other(store, "ann"))
    assert other.count(Filter(scope=Scope(user="ann"))) == 4


def test_a_tenant_is_read_and_written_while_it_moves(opened: Open) -> None:
    store, writer, reader = opened(), opened(), opened()
    store.add(_items("ann", 600))
    stop, acknowledged, wrong = Event(), 600, list[object]()

    def write() -> None:
        nonlocal acknowledged
        while not stop.is_set():
            writer.add(_items("ann", 1, start=acknowledged))
            acknowledged += 1

    def read() -> None:
        while not stop.is_set():
            least = acknowledged
            ids = [item.id for item in reader.scan()]
            if len(ids) < least or len(ids) != len(set(ids)):
                wrong.append((least, len(ids), len(set(ids))))

    threads = [Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            move_tenant(store.shards, "ann", _other(store, "ann"))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert sorted(_ids(store, "ann")) == sorted(f"ann-{number}" for number in range(acknowledged))
    assert store.count() == acknowledged


class _StoppedError(Exception):
    """Stands for the death of the process."""


@pytest.mark.parametrize("phase", [Phase.COPY, Phase.FREEZE, Phase.CLEAN])
def test_a_move_that_stopped_goes_on(opened: Open, phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    store.add([*_items("ann", 300), *_items("bob", 10)])
    target, change = _other(store, "ann"), store.shards.change

    def stop(*args: Any, **options: Any) -> bool:
        done = change(*args, **options)
        if args[1].move is not None and args[1].move.phase is phase:
            raise _StoppedError
        return done

    monkeypatch.setattr(store.shards, "change", stop)
    with pytest.raises(_StoppedError):
        move_tenant(store.shards, "ann", target)
    store.close()
    again = opened()
    if phase is not Phase.FREEZE:
        again.add(_items("ann", 1, start=300))
        assert len(_ids(again, "ann")) == 301
    assert sorted(item.id for item in again.scan() if item.scope.user == "bob") == sorted(f"bob-{n}" for n in range(10))
    move_tenant(again.shards, "ann", target)
    assert len(set(_ids(again, "ann"))) == again.count(Filter(scope=Scope(user="ann"))) >= 300
    assert again.shards.map.move is None
    assert again.shards.map.shard_of("ann") == target


def test_a_move_is_cancelled(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    store.add(_items("ann", 10))
    source, target = store.shards.map.shard_of("ann"), _other(store, "ann")
    monkeypatch.setattr("devmem.storage.sharding.moving._Copy._decided", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        move_tenant(store.shards, "ann", target)
    with pytest.raises(CollectionBusyError, match="one move at a time"):
        move_tenant(store.shards, "bob", "a" if store.shards.map.shard_of("bob") == "b" else "b")
    assert cancel_move(store.shards) is not None
    assert cancel_move(store.shards) is None
    assert store.shards.map.shard_of("ann") == source
    assert len(_ids(store, "ann")) == store.count() == 10


def test_what_cannot_move_is_refused(opened: Open) -> None:
    store = opened()
    store.add(_items("ann", 2))
    with pytest.raises(CollectionError, match="no shard 'z'; the shards are a, b"):
        move_tenant(store.shards, "ann", "z")
    run = store.run("r1")
    run.add(_items("ann", 1, start=5))
    with pytest.raises(CollectionBusyError, match="pending run"):
        move_tenant(store.shards, "ann", _other(store, "ann"))
    run.close()
    store.commit("r1")
    move_tenant(store.shards, "ann", _other(store, "ann"))
    assert store.revert("r1").changes
    assert len(_ids(store, "ann")) == 2


def test_a_shard_that_joins_takes_its_share_alone(opened: Open) -> None:
    store = opened("a", "b")
    users = [f"user {number}" for number in range(40)]
    store.add([item for user in users for item in _items(user, 2)])
    before = {user: store.shards.map.shard_of(user) for user in users}
    store.close()
    wider = opened("a", "b", "c")
    assert [each.state for each in statuses(wider.shards)] == ["ok", "ok", "new"]
    expected = {user for user, *_ in due_moves(wider.shards)}
    assert 4 <= len(expected) <= 24
    assert join_shards(wider.shards) == ("c",)
    # Until they are moved, tenants stay where they are, and new ones go to their place at once.
    assert {user: wider.shards.map.shard_of(user) for user in users} == before
    moved = {each.tenant for each in rebalance(wider.shards)}
    assert moved == expected
    assert {user for user in users if wider.shards.map.shard_of(user) != before[user]} == moved
    assert {wider.shards.map.shard_of(user) for user in moved} == {"c"}
    assert not wider.shards.map.exceptions
    assert wider.count() == 80
    assert rebalance(wider.shards) == []


def test_a_database_becomes_the_first_shard(opened: Open, tmp_path: Path) -> None:
    """Its items stay there until a rebalance."""
    from devmem.storage import SqliteCollection

    with_items = SqliteCollection(tmp_path / "a.db", model=_EMBEDDER.identity)
    with_items.add([item for number in range(20) for item in _items(f"user {number}", 1)])
    with_items.close()
    store = opened("a", "b")
    assert store.shards.map.ring == ("a",)
    assert store.count() == 20
    assert rebalance(store.shards)
    assert store.count() == 20
    assert all(each.items for each in statuses(store.shards))


def test_a_shard_with_other_items_does_not_join(opened: Open, tmp_path: Path) -> None:
    from devmem.storage import SqliteCollection

    opened("a", "b").close()
    foreign = SqliteCollection(tmp_path / "c.db", model=_EMBEDDER.identity)
    foreign.add(_items("eve", 1))
    foreign.close()
    with pytest.raises(CollectionInUseError, match="holds items already"):
        join_shards(opened("a", "b", "c").shards)


def test_searches_see_each_item_once_during_a_move(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    store.add([*_items("ann", 20), *_items("bob", 20)])
    monkeypatch.setattr("devmem.storage.sharding.moving._Copy._decided", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        move_tenant(store.shards, "ann", _other(store, "ann"))
    hits = store.search(SearchQuery(text="train leaves late", vector=_EMBEDDER.embed(["train"])[0], limit=100))
    assert len(hits) == len({hit.item.id for hit in hits}) == 40
    assert store.count() == len(store.recent(99)) == 40


def _stop_before_deciding(store: ShardedCollection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a move of ann in the phase of copying."""
    with monkeypatch.context() as patch:
        patch.setattr("devmem.storage.sharding.moving._Copy._decided", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move_tenant(store.shards, "ann", _other(store, "ann"))


def test_what_is_forgotten_while_it_moves_stays_out(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tombstone that is kept after the copy began is in the target too."""
    store = opened()
    items = _items("ann", 3)
    store.add(items)
    target, hold = _other(store, "ann"), _Copy._hold_if_due

    def holding(copy: _Copy, left: int) -> None:
        if not left and items[0].id in _ids(store, "ann"):
            store.keep_tombstones(items[:1])
            store.erase(ids=[items[0].id])
        hold(copy, left)

    monkeypatch.setattr(_Copy, "_hold_if_due", holding)
    move_tenant(store.shards, "ann", target)
    assert store.shards.map.shard_of("ann") == target
    assert not store.add([items[0]])[0]
    assert _ids(store, "ann") == [item.id for item in items[1:]]


def test_a_run_that_began_during_a_move_keeps_it_from_being_decided(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its commit would store items where the tenant no longer lives."""
    store = opened()
    store.add(_items("ann", 3))
    source, target = store.shards.map.shard_of("ann"), _other(store, "ann")
    _stop_before_deciding(store, monkeypatch)
    run = store.run("r")
    run.add(_items("ann", 1, start=3))
    run.close()
    with pytest.raises(CollectionBusyError, match="pending run"):
        move_tenant(store.shards, "ann", target)
    assert store.shards.map.shard_of("ann") == source
    # Writers of the tenant do not wait any more.
    store.add(_items("ann", 1, start=4))
    store.commit("r")
    move_tenant(store.shards, "ann", target)
    assert len(_ids(store, "ann")) == store.count() == 5


def test_a_tenant_does_not_move_to_an_id_of_another(opened: Open) -> None:
    """Ids that two tenants use are one item in a database."""
    store = opened()
    ann = "ann"
    other = next(
        f"user {n}" for n in range(50) if store.shards.map.shard_of(f"user {n}") != store.shards.map.shard_of(ann)
    )
    for user in (ann, other):
        store.add([MemoryItem(id="same", content_summary=f"of {user}", scope=Scope(user=user), created_at=1.0)])
    with pytest.raises(CollectionError, match="'same' is an item of another"):
        move_tenant(store.shards, ann, _other(store, ann))
    assert store.shards.map.move is None
    assert store.count() == 2


def test_what_was_popped_or_deleted_before_the_map_changed_is_returned(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move in another process is noticed between two shards: the first has been written to already."""
    from devmem.storage import SqliteCollection

    store, mover = opened(), opened()
    users = [f"user {number}" for number in range(8)]
    store.add([item for user in users for item in _items(user, 1)])
    moved = next(user for user in users if store.shards.map.shard_of(user) == "b")

    def between(name: str) -> None:
        """Move a tenant once the first shard was written to, and back again."""
        write, written = getattr(SqliteCollection, name), list[str]()

        def writing(shard: SqliteCollection, *args: Any, **options: Any) -> object:
            if written == ["first"]:
                written.append("moved")
                monkeypatch.setattr(SqliteCollection, name, write)
                for target in ("a", "b"):
                    move_tenant(mover.shards, moved, target)
            written.append("first")
            return write(shard, *args, **options)

        monkeypatch.setattr(SqliteCollection, name, writing)

    between("pop")
    popped = store.pop(8)
    assert sorted(item.id for item in popped) == sorted(f"{user}-0" for user in users)
    assert store.count() == 0
    store.add([item for user in users for item in _items(user, 1)])
    between("delete")
    assert store.delete(ids=[f"{user}-0" for user in users]) == 8
