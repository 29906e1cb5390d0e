"""SIGKILL at a random moment of a stream of writes, for every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.torture.children import EXIT_FAILED, Child
from tools.torture.judge import check_items, check_searches
from tools.torture.results import Plan, Result
from tools.torture.stores import KINDS, opened, payload, prepare

_JUDGED_EVERY = 10
_MOST_WRITES = 40
_SECONDS = 60.0


def run(plan: Plan) -> list[Result]:
    """Kill writers of every kind of store."""
    return [_kill_writers(plan, kind) for kind in KINDS]


def _kill_writers(plan: Plan, kind: str) -> Result:
    result = Result(fault=f"kill:{kind}")
    folder, chance = prepare(plan.folder / f"kill-{kind}", kind), plan.random("kill", kind)
    acknowledged: set[str] = set()
    kills = plan.extent(short=3, full=220)
    for kill in range(kills):
        with Child(_writer(folder, f"w{kill}x")) as child:
            child.wait_for_lines(chance.randrange(_MOST_WRITES), _SECONDS)
            acknowledged |= set(child.kill())
        result.tried += 1
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"seed {plan.seed}, kill {kill}: the writer failed before it was killed")
        if kill % _JUDGED_EVERY == _JUDGED_EVERY - 1 or kill == kills - 1:
            where = f"seed {plan.seed}, {kind}, after kill {kill}"
            with opened(folder) as store:
                check_items(store, acknowledged, result, where)
                check_searches(store, kind, acknowledged, chance, result)
    result.acknowledged = len(acknowledged)
    return result


def _writer(folder: Path, prefix: str) -> Callable[[Callable[[str], None]], None]:
    def write(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            for number in range(100_000):
                token = f"{prefix}{number}"
                store.update(payload(token))
                send(token)

    return write
