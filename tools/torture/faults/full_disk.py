"""A file that may not grow any further, at many sizes: what was acknowledged stays, and with room again it goes on."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from pathlib import Path

from devmem import DevmemError
from tools.torture.children import Child
from tools.torture.judge import check_items, check_searches
from tools.torture.results import Plan, Result
from tools.torture.stores import KINDS, opened, payload, prepare

_MOST_WRITES = 400


def run(plan: Plan) -> list[Result]:
    """Limit the size of every file of a store, for every kind of store."""
    return [_limit_all(plan, kind) for kind in KINDS]


def _limit_all(plan: Plan, kind: str) -> Result:
    result, chance = Result(fault=f"full disk:{kind}"), plan.random("full disk", kind)
    for trial in range(plan.extent(short=2, full=20)):
        folder = prepare(plan.folder / f"disk-{kind}-{trial}", kind)
        limit = chance.randrange(100_000, 1_500_000)
        where = f"seed {plan.seed}, {kind}, files of at most {limit} bytes"
        with Child(_writer(folder, limit)) as child:
            said = child.finish()
        result.tried += 1
        acknowledged = {line for line in said if line.startswith("w")}
        result.acknowledged += len(acknowledged)
        if child.status or not {"full", "fine"} <= set(said):
            result.fail("unrecovered", f"{where}: {said[-1:]} and exit code {child.status}")
        with opened(folder) as store:
            check_items(store, acknowledged, result, where)
            check_searches(store, kind, acknowledged, chance, result)
    return result


def _writer(folder: Path, limit: int) -> Callable[[Callable[[str], None]], None]:
    def write(send: Callable[[str], None]) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with opened(folder) as store:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            for number in range(_MOST_WRITES):
                outcome_or_error = _stored(lambda number=number: store.update(payload(f"w1x{number}")))  # type: ignore[misc]
                if outcome_or_error is not None:
                    send("full")
                    break
                send(f"w1x{number}")
            else:
                send("full")
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            store.update(payload("w2x0"))
            send("w2x0")
            send("fine")

    return write


def _stored(write: Callable[[], object]) -> DevmemError | None:
    """Write, and return devmem's own error; any other ends the process."""
    try:
        write()
    except DevmemError as error:
        return error
    return None
