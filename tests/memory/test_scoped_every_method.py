"""Every public method of a scoped handle, found by reflection, is tried on another user's memories and runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

import pytest

import devmem
from devmem.errors import DevmemError
from devmem.memory import MemorySnapshot
from devmem.model.versions import ItemVersion, RunState
from devmem.stores import dump_item

CANARY: Final = "cinnamon"
"""In every text, id, run and actor of Ann's, and in the agent and metadata of one item."""


@dataclass(frozen=True)
class Ann:
    """Ann's handle, and a time."""

    memory: devmem.Memory
    """Her own handle."""
    before: float
    """A time at which she had stored something already."""


ATTEMPTS: Final[dict[str, Callable[[devmem.Memory, Ann], object]]] = {
    "add": lambda bob, _: bob.add("Bob was here.", id="cinnamon-1"),
    "add_outcomes": lambda bob, _: bob.add_outcomes("Bob was here.", id="cinnamon-1"),
    "update": lambda bob, _: [
        raises(lambda: bob.update("cinnamon-1", "Bob was here.")),
        bob.update(where={"metadata.spice": CANARY}, metadata={"by": "bob"}),
        bob.update(where={"any_of": [{"user": "ann"}, {"user": ["ann", "bob"]}]}, metadata={"by": "bob"}),
    ],
    "scan": lambda bob, _: [*bob.scan(), *bob.scan(where={"none_of": [{"user": "bob"}]})],
    "forget": lambda bob, _: [
        bob.forget("cinnamon-1", verify=True),
        bob.forget(run="cinnamon-done"),
        bob.forget(matching=CANARY),
    ],
    "tombstones": lambda bob, _: bob.tombstones(),
    "remove_tombstones": lambda bob, ann: [
        bob.remove_tombstones(everything=True),
        bob.remove_tombstones(*(each.id for each in ann.memory.tombstones())),
    ],
    "stale": lambda bob, _: bob.stale(),
    "renew": lambda bob, _: [bob.renew(), bob.renew("cinnamon-5")],
    "consolidate": lambda bob, _: [
        bob.consolidate().merges,
        bob.consolidate(dry_run=True).merges,
        raises(lambda: bob.consolidate(user="ann")),
    ],
    "archived": lambda bob, _: read_all(bob.archived()),
    "restore": lambda bob, _: bob.restore("cinnamon-7"),
    "approve": lambda bob, _: [
        raises(lambda: bob.approve("cinnamon-6")),
        bob.approve(bob.add("Bob's own text.", trust=0, metadata={"quarantine": {"id": "cinnamon-1"}})),
    ],
    "get": lambda bob, _: [bob.get("cinnamon-1"), bob.get(["cinnamon-1"]), bob.get("cinnamon-7", archived=True)],
    "list": lambda bob, _: [bob.list(100), bob.list(quarantined=True)],
    "search": lambda bob, _: [
        raises(lambda: bob.search(like="cinnamon-1")),
        bob.search(CANARY, limit=100),
        bob.search(CANARY).left_out,
    ],
    "context": lambda bob, _: bob.context("the secret spice", limit=100),
    "count": lambda bob, _: [bob.count(), bob.count(by="user"), bob.count(by="metadata.spice")],
    "history": lambda bob, _: bob.history("cinnamon-1"),
    "as_of": lambda bob, ann: read_all(bob.as_of(ann.before)),
    "diff": lambda bob, ann: [bob.diff(0.0), bob.diff(run="cinnamon-done")],
    "run": lambda bob, _: end(bob.run("cinnamon-pending")),
    "runs": lambda bob, _: bob.runs(),
    "commit": lambda bob, _: bob.commit("cinnamon-pending"),
    "discard": lambda bob, _: bob.discard("cinnamon-pending"),
    "revert": lambda bob, _: bob.revert("cinnamon-done"),
    "scoped": lambda bob, _: [raises(lambda: bob.scoped(user="ann")), bob.scoped().list(100)],
    "close": lambda bob, _: bob.close(),
}
"""One attempt of Bob's with each method, which raises an error or returns nothing of Ann's."""


async def collected(records: AsyncIterator[devmem.MemoryItem]) -> list[devmem.MemoryItem]:
    return [record async for record in records]


def raises(attempt: Callable[[], object]) -> object:
    try:
        return attempt()
    except DevmemError:
        return None


def read_all(snapshot: MemorySnapshot) -> object:
    with snapshot:
        return [snapshot.search(CANARY), snapshot.list(100), snapshot.get("cinnamon-1"), len(snapshot)]


def end(run: devmem.MemoryRun[devmem.Memory]) -> None:
    run.discard()


class Twins:
    """A memory whose methods are their async twins, where they have one."""

    def __init__(self, memory: devmem.Memory) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> object:
        twin = getattr(self._memory, f"a{name}", None)
        if twin is None:
            return getattr(self._memory, name)
        if inspect.isasyncgenfunction(twin):
            return lambda *args, **options: asyncio.run(collected(twin(*args, **options)))
        return lambda *args, **options: asyncio.run(twin(*args, **options))


def public_methods(of: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(of, inspect.isroutine) if not name.startswith("_")}


def test_no_public_method_is_forgotten() -> None:
    methods = public_methods(devmem.Memory)
    tried = {*ATTEMPTS}
    twins = {name for name in methods if name.startswith("a") and name[1:] in tried}
    assert methods - twins == tried
    assert public_methods(devmem.MemoryRun) == {"commit", "discard", "close"}, "each is tried below"
    assert public_methods(MemorySnapshot) - {"close"} <= tried | twins


@pytest.fixture
def ann(memory: devmem.Memory) -> Ann:
    handle = memory.scoped(user="ann")
    handle.add("Ann's secret spice is cinnamon.", id="cinnamon-1", agent=f"{CANARY} agent", metadata={"spice": CANARY})
    with handle.run("cinnamon-done", actor="cinnamon-actor") as done:
        done.add("Ann's other spice is cinnamon bark.", id="cinnamon-2")
    handle.add("Ann has buried cinnamon sticks under the oak.", id="cinnamon-4")
    handle.forget("cinnamon-4", tombstone=True, verify=True)
    handle.add("Cinnamon is sold out.", key="cinnamon-stock")
    handle.add("So there is no cinnamon.", id="cinnamon-5", derived_from=[handle.search("sold out")[0].id])
    handle.add("Cinnamon is back.", key="cinnamon-stock")
    handle.add("Cinnamon is poison.", id="cinnamon-6", trust=0)
    handle.add("An old page about cinnamon.", id="cinnamon-7", trust=0.1)
    handle.consolidate(archive_before="in 1 day", max_trust=0.2)
    pending = handle.run("cinnamon-pending", actor="cinnamon-actor")
    pending.memory.add("Ann may take cinnamon oil.", id="cinnamon-3")
    pending.close()
    return Ann(handle, memory.store.setup.clock())


def state_of(ann: Ann) -> object:
    runs = [(run.run, run.state, run.changes) for run in ann.memory.runs()]
    with ann.memory.archived() as archive:
        archived = [(record.id, record.version) for record in archive]
    items = [(record.id, record.text, record.version) for record in ann.memory]
    return (
        runs,
        archived,
        items,
        ann.memory.tombstones(),
        [(one.operation, one.run) for one in ann.memory.history("cinnamon-1")],
    )


def everything_of(found: object) -> str:
    """Return all that a caller can read of a result."""
    if isinstance(found, list | tuple):
        return "\n".join(map(everything_of, found))
    parts = [str(found), repr(found)]
    item = found.item if isinstance(found, devmem.Hit | ItemVersion) else found
    if isinstance(item, devmem.MemoryItem):
        parts.append(repr(dump_item(item)))
    return "\n".join(parts)


@pytest.mark.parametrize("name", ATTEMPTS)
@pytest.mark.parametrize("as_twin", [False, True], ids=["sync", "async"])
def test_a_method_neither_shows_nor_changes_what_is_anothers(
    memory: devmem.Memory, ann: Ann, name: str, as_twin: bool
) -> None:
    before = state_of(ann)
    bob = memory.scoped(user="bob")
    bob.add("Bob likes pepper.")
    handle = cast("devmem.Memory", Twins(bob)) if as_twin else bob
    told: object = None
    with suppress(DevmemError):
        told = ATTEMPTS[name](handle, ann)
    assert CANARY not in everything_of(told)
    assert state_of(ann) == before


def test_two_runs_of_one_id_that_began_together_end_neither(memory: devmem.Memory) -> None:
    ann, bob = memory.scoped(user="ann"), memory.scoped(user="bob")
    hers, his = ann.run("plan"), bob.run("plan")
    hers.memory.add("Ann's plan.")
    his.memory.add("Bob's plan.")
    for run in (hers, his):
        for end_it in (run.commit, run.discard):
            with pytest.raises(devmem.errors.ScopeError, match="another scope"):
                end_it()
    assert ann.runs() == bob.runs() == []
    assert memory.commit("plan").changes == 2


def test_a_scoped_handle_ends_its_own_runs(memory: devmem.Memory) -> None:
    ann = memory.scoped(user="ann")
    with ann.run("one") as run:
        run.add("tea", id="1")
    pending = ann.run("two")
    pending.memory.update("1", "rain")
    pending.close()
    assert [(run.run, run.state.value) for run in ann.runs()] == [("two", "pending"), ("one", "committed")]
    assert [change.after.text for change in ann.diff(run="two") if change.after] == ["rain"]
    assert ann.commit("two").state is RunState.COMMITTED
    assert ann.revert("two").run == "revert of two"
    assert [record.text for record in ann] == ["tea"]
    with ann.run("nothing left") as run:
        run.forget(run.add("brief"))
    assert len(ann.runs(1)) == 1
