"""SIGKILL while a tenant moves, a shard joins or is drained, beside a writer: nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from devmem.model.items import MemoryItem, Scope
from devmem.storage.opening import CollectionOptions
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import move_tenant
from devmem.storage.sharding.opener import open_shards
from devmem.storage.sharding.ring import cancel_drain, drain, rebalance
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.results import Plan, Result

_USERS: Final = 12
_ITEMS: Final = 60
_SECONDS: Final = 60.0

Work = Callable[[Callable[[str], None]], None]


def run(plan: Plan) -> list[Result]:
    """Kill movers, and processes that let a shard join, or drain one."""
    return [_kill(plan, "move"), _kill(plan, "join"), _kill(plan, "drain")]


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
    names, written = "abc" if what == "drain" else "ab", 0
    with_items = _open(folder, names)
    with_items.add([_item(f"user {user}", at) for user in range(_USERS) for at in range(_ITEMS)])
    with_items.close()
    for kill in range(plan.extent(short=4, full=150)):
        if what == "join" and kill % 2 == 0:
            names += chr(ord("a") + len(names)) if len(names) < 20 else ""
        moves = {
            "move": _moves(folder, chance.randrange(_USERS), "ab"[kill % 2]),
            "join": _joins(folder, names),
            "drain": _drains(folder, names, names[kill % len(names)]),
        }[what]
        with Child(_writes(folder, names, written)) as writer, Child(moves) as mover:
            mover.wait_for_lines(1, _SECONDS)
            # A drain moves several tenants.
            writer.wait_for_lines(chance.randrange(80 if what == "drain" else 8), _SECONDS)
            mover.kill()
            acknowledged |= set(writer.kill())
        written += 10_000
        result.tried += 1
        if EXIT_FAILED in (mover.status, writer.status):
            result.fail("unrecovered", f"seed {plan.seed}, kill {kill}: a process failed before it was killed")
        _judge(folder, names, acknowledged, result, f"seed {plan.seed}, {what}, after kill {kill}")
    result.acknowledged = len(acknowledged)
    return result


def _continue_move(store: ShardedCollection) -> None:
    if (move := store.shards.map.move) is not None:
        move_tenant(store.shards, move.tenant, move.target)


def _moves(folder: Path, user: int, target: str) -> Work:
    def work(send: Callable[[str], None]) -> None:
        store = _open(folder, "ab")
        send("begun")
        _continue_move(store)
        move_tenant(store.shards, f"user {user}", target, lambda _done, _all: None)
        store.close()

    return work


def _joins(folder: Path, names: str) -> Work:
    def work(send: Callable[[str], None]) -> None:
        store = _open(folder, names)
        send("begun")
        _continue_move(store)
        rebalance(store.shards)
        store.close()

    return work


def _drains(folder: Path, names: str, shard: str) -> Work:
    """Go on with what was interrupted, let drained shards take tenants again, and drain another one."""

    def work(send: Callable[[str], None]) -> None:
        store = _open(folder, names)
        shards = store.shards
        send("begun")
        for name in shards.map.draining:
            drain(shards, name)
        _continue_move(store)
        for name in shards.map.drained:
            _check_left_out(folder, names.replace(name, ""), store)
            cancel_drain(shards, name)
        rebalance(shards)
        drain(shards, shard)
        store.close()

    return work


def _check_left_out(folder: Path, names: str, store: ShardedCollection) -> None:
    """Fail where a store without the drained shard has not every item; the writer beside it goes on."""
    least = store.count()
    without = _open(folder, names)
    if without.count() < least:
        raise AssertionError(f"{without.count()} of {least} items are left without a drained shard")
    without.close()


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
