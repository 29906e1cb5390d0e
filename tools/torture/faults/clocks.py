"""Clocks that jump: writes are kept, and expiry follows the clock."""

from __future__ import annotations

from dataclasses import replace

from devmem import MemoryItem
from devmem.stores import MemoryQuery
from devmem.testing import ManualClock
from tools.torture.judge import check_items
from tools.torture.results import Plan, Result
from tools.torture.stores import EMBEDDER, KINDS, opened, payload, prepare

_JUMPS = (-3600.0, 3600.0, -1e7, 1e7, 0.0, -0.001, 86400.0 * 365)


def run(plan: Plan) -> list[Result]:
    """Write under a clock that jumps, for every kind of store."""
    return [*(_jump(plan, kind) for kind in KINDS), _expire(plan)]


def _jump(plan: Plan, kind: str) -> Result:
    result, clock = Result(fault=f"clock jumps:{kind}"), ManualClock()
    folder, chance = prepare(plan.folder / f"clock-{kind}", kind), plan.random("clock", kind)
    acknowledged: set[str] = set()
    with opened(folder, clock) as store:
        for jump in range(plan.extent(short=10, full=200)):
            clock.now = max(clock.now + chance.choice(_JUMPS), 1.0)
            token = f"w{jump}x0"
            store.update(payload(token))
            acknowledged.add(token)
            result.tried += 1
        check_items(store, acknowledged, result, kind)
    with opened(folder, clock) as store:
        check_items(store, acknowledged, result, f"{kind}, opened again")
    result.acknowledged = len(acknowledged)
    return result


def _expire(plan: Plan) -> Result:
    """An item is found before it expires, and never afterwards, whichever way the clock went."""
    result, clock = Result(fault="clock jumps: expiry"), ManualClock()
    chance = plan.random("expiry")
    with opened(prepare(plan.folder / "expiry", "simple"), clock) as store:
        for number in range(plan.extent(short=10, full=200)):
            text = f"a note with the word w{number}x7"
            until = clock.now + chance.choice((5.0, 1000.0))
            item = MemoryItem(content_summary=text, expires_at=until, embedding=EMBEDDER.vector(text))
            store.add([replace(item, created_at=clock.now)])
            clock.now += chance.choice((0.0, 10.0, 2000.0, -50.0))
            found = any(hit.item.id == item.id for hit in store.search(MemoryQuery(text=f"w{number}x7", limit=3)))
            result.tried += 1
            if found != (clock.now < until):
                result.fail("wrong", f"seed {plan.seed}: an item that expires at {until} was asked for at {clock.now}")
    result.acknowledged = result.tried
    return result
