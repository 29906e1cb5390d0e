"""SIGKILL while a tenant moves between shards, or a shard joins, beside a writer: nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from devmem.model.items import MemoryItem, Scope
from devmem.storage.opening import CollectionOptions
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import move_tenant, rebalance
from devmem.storage.sharding.opener import open_shards
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.results import Plan, Result

_USERS: Final = 12
_ITEMS: Final = 60
_SECONDS: Final = 60.0

Work = Callable[[Callable[[str], None]], None]


def run(plan: Plan) -> list[Result]:
    """Kill movers, and processes that let a shard join."""
    return [_kill(plan, "move"), _kill(plan, "join")]


def _open(folder: Path, names: str) -> ShardedCollection:
    places = "&".join(f"{name}={folder / name}.db" for name in names)
    return open_shards(f"shards://user?{places}", CollectionOptions())


def _item(user: str, number: int) -> MemoryItem:
    text = f"{user} saw train {number}"
    return MemoryItem(id=f"{user} {number}", content_summary=text, scope=Scope(user=user), created_at=1.0 + number)


def _kill(plan: Plan, what: str) -> Result:
    result, chance = Result(fault=f"shards:{what}"), plan.random("shards", what)
    folder = plan.folder / f"shards-{what}"
    folder.mkdir()
    acknowledged = {_item(f"user {user}", at).id for user in range(_USERS) for at in range(_ITEMS)}
    names, written = "ab", 0
    with_items = _open(folder, names)
    with_items.add([_item(f"user {user}", at) for user in range(_USERS) for at in range(_ITEMS)])
    with_items.close()
    for kill in range(plan.extent(short=4, full=150)):
        if what == "join" and kill % 2 == 0:
            names += chr(ord("a") + len(names)) if len(names) < 20 else ""
        moves = _joins(folder, names) if what == "join" else _moves(folder, chance.randrange(_USERS), "ab"[kill % 2])
        with Child(_writes(folder, names, written)) as writer, Child(moves) as mover:
            mover.wait_for_lines(1, _SECONDS)
            writer.wait_for_lines(chance.randrange(8), _SECONDS)
            mover.kill()
            acknowledged |= set(writer.kill())
        written += 10_000
        result.tried += 1
        if EXIT_FAILED in (mover.status, writer.status):
            result.fail("unrecovered", f"seed {plan.seed}, kill {kill}: a process failed before it was killed")
        _judge(folder, names, acknowledged, result, f"seed {plan.seed}, {what}, after kill {kill}")
    result.acknowledged = len(acknowledged)
    return result


def _moves(folder: Path, user: int, target: str) -> Work:
    def work(send: Callable[[str], None]) -> None:
        store = _open(folder, "ab")
        send("begun")
        if store.shards.map.move is not None:
            move = store.shards.map.move
            move_tenant(store.shards, move.tenant, move.target)
        move_tenant(store.shards, f"user {user}", target, lambda _done, _all: None)
        store.close()

    return work


def _joins(folder: Path, names: str) -> Work:
    def work(send: Callable[[str], None]) -> None:
        store = _open(folder, names)
        send("begun")
        if (move := store.shards.map.move) is not None:
            move_tenant(store.shards, move.tenant, move.target)
        rebalance(store.shards)
        store.close()

    return work


def _writes(folder: Path, names: str, first: int) -> Work:
    def work(send: Callable[[str], None]) -> None:
        store = _open(folder, names)
        for number in range(10_000):
            item = _item(f"user {number % _USERS}", 1_000 + first + number)
            store.add([item])
            send(item.id)

    return work


def _judge(folder: Path, names: str, acknowledged: set[str], result: Result, where: str) -> None:
    store = _open(folder, names)
    try:
        found = Counter(item.id for item in store.scan())
        if lost := acknowledged - found.keys():
            result.fail("lost", f"{where}: {len(lost)} items, such as {min(lost)!r}")
        if doubled := [item_id for item_id, number in found.items() if number > 1]:
            result.fail("doubled", f"{where}: {len(doubled)} items, such as {doubled[0]!r}")
        if (counted := store.count()) != len(found):
            result.fail("wrong", f"{where}: {counted} items are counted, and {len(found)} listed")
    finally:
        store.close()
