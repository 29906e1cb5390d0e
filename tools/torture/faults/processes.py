"""Several processes on one store: two writers beside a searcher, and processes forked while the store is open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from devmem.stores import MemoryQuery
from tools.torture.children import Child
from tools.torture.judge import check_items, check_searches, tokens_of
from tools.torture.results import Plan, Result
from tools.torture.stores import KINDS, opened, payload, prepare

_SECONDS = 120.0


def run(plan: Plan) -> list[Result]:
    """Write from two processes while a third searches; then fork beside an open store."""
    return [*(_two_writers(plan, kind) for kind in KINDS), _forks(plan)]


def _two_writers(plan: Plan, kind: str) -> Result:
    result = Result(fault=f"two writers:{kind}")
    folder = prepare(plan.folder / f"writers-{kind}", kind)
    count = plan.extent(short=40, full=1000)
    with opened(folder):
        pass
    writers = [Child(_writer(folder, f"w{number}x", count)) for number in (1, 2)]
    with Child(_searcher(folder, kind)) as searcher:
        acknowledged = {line for writer in writers for line in writer.finish()}
        said = searcher.wait_for_lines(1, _SECONDS)
        searcher.kill()
    for line in said:
        if line.startswith("wrong"):
            result.fail("wrong", f"{kind}: {line}")
    result.tried, result.acknowledged = 2 * count, len(acknowledged)
    if len(acknowledged) != 2 * count or any(writer.status for writer in writers):
        result.fail("unrecovered", f"{kind}: {len(acknowledged)} of {2 * count} writes were acknowledged")
    with opened(folder) as store:
        check_items(store, acknowledged, result, kind)
        check_searches(store, kind, acknowledged, plan.random("writers", kind), result)
    return result


def _writer(folder: Path, prefix: str, count: int) -> Callable[[Callable[[str], None]], None]:
    def write(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            for number in range(count):
                store.update(payload(f"{prefix}{number}"))
                send(f"{prefix}{number}")

    return write


def _searcher(folder: Path, kind: str) -> Callable[[Callable[[str], None]], None]:
    """Search until killed: what was found once stays there, and nothing is there twice."""

    def search(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            seen: set[str] = set()
            while True:
                hits = store.search(MemoryQuery(text="answer for this number", limit=50))
                names = [hit.item.id for hit in hits]
                if len(names) != len(set(names)):
                    send(f"wrong {kind}: an item was found twice")
                found = tokens_of(store)
                if not seen <= set(found) or max(found.values(), default=1) > 1:
                    send(f"wrong {kind}: {len(seen - set(found))} items that were there are gone, or one is doubled")
                seen = set(found)
                send("searched")

    return search


def _forks(plan: Plan) -> Result:
    """Fork while the parent's store is open; each opens a store of its own, and both go on."""
    result = Result(fault="fork beside an open store")
    folder = prepare(plan.folder / "forks", "simple")
    forks = plan.extent(short=3, full=50)

    def parent(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            for fork in range(forks):
                store.update(payload(f"w{fork}x0"))
                send(f"w{fork}x0")
                with Child(_writer(folder, f"w{fork}x1", 3)) as child:
                    store.update(payload(f"w{fork}x2"))
                    for line in (f"w{fork}x2", *child.finish()):
                        send(line)

    with Child(parent) as child:
        acknowledged = set(child.finish())
    result.tried, result.acknowledged = forks, len(acknowledged)
    if child.status or len(acknowledged) != 5 * forks:
        result.fail("unrecovered", f"{len(acknowledged)} of {5 * forks} writes, exit code {child.status}")
    with opened(folder) as store:
        check_items(store, acknowledged, result, "forks")
    return result
