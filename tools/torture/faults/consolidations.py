"""SIGKILL before a statement of a consolidation, over and over: nothing is lost, merged or archived twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import devmem
from devmem.memory.memory import Memory
from devmem.model.items import MemoryItem, dump_item
from devmem.model.versions import MERGED, RunState
from tools.postgres_server import USER, PostgresServer
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.statements import Trace, dying, traced, traced_postgres
from tools.torture.results import Plan, Result

_GROUPS: Final = 300
_COPIES: Final = 3
_OLD: Final = 200
"""Number of items that are archived."""
_BEFORE: Final = 1_000_000.0
"""Time before which they were stored, in seconds since the epoch."""
_STATEMENTS: Final = 10_000
"""Number of statements of which one is the last of a process; a whole consolidation has about as many."""
_NOTES: Final = "notes"


def run(plan: Plan) -> list[Result]:
    """Kill processes that consolidate a file."""
    return [_torture(plan, "consolidations", str(plan.folder / "merged.db"), traced, plan.extent(short=6, full=100))]


def run_postgres(plan: Plan) -> list[Result]:
    """Kill processes that consolidate a PostgreSQL store."""
    with closing(PostgresServer()) as server:
        place = server.url(USER, store=_NOTES)
        return [_torture(plan, "postgres_consolidations", place, traced_postgres, plan.extent(short=3, full=100))]


def _torture(plan: Plan, fault: str, place: str, trace: Trace, kills: int) -> Result:
    result, chance = Result(fault=fault), plan.random(fault)
    with _opened(place) as memory:
        texts = [f"Task {number} of Ann is done" for number in range(_GROUPS)]
        memory.add([text + end for end in (".", "!", " ...")[:_COPIES] for text in texts])
        memory.store.add([_old_item(number) for number in range(_OLD)])
        before = _contents(memory)
    result.acknowledged = len(before)
    for kill in range(kills):
        with Child(_consolidating(place, trace, chance.randrange(_STATEMENTS))) as child:
            child.finish()
        result.tried += 1
        where = f"seed {plan.seed}, kill {kill}"
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"{where}: it failed")
        with _opened(place) as memory:
            _judge(memory, before, result, where)
    with _opened(place) as memory:
        _finish(memory, before, result)
    return result


def _old_item(number: int) -> MemoryItem:
    text = f"The page of Bob has {number} lines"
    return MemoryItem(id=f"old-{number}", content_summary=text, created_at=_BEFORE - number - 1, trust=0.4)


def _consolidating(place: str, trace: Trace, at: int) -> Callable[[Callable[[str], None]], None]:
    def work(_send: Callable[[str], None]) -> None:
        with dying(trace) as die_at, _opened(place) as memory:
            die_at(at)
            memory.consolidate(archive_before=_BEFORE)

    return work


def _judge(memory: Memory, before: Mapping[str, object], result: Result, where: str) -> None:
    """Compare the items with those before: all of them, or each group as one and the old ones archived.

    What was committed is reverted then.
    """
    after = _contents(memory)
    with memory.archived() as old:
        archived = {record.id: dump_item(record) for record in old.scan()}
    committed = [run.run for run in memory.runs() if run.state is RunState.COMMITTED and "revert of" not in run.run]
    told = [str(note["id"]) for item in after.values() for note in _notes(item)]
    if lost := before.keys() - after.keys() - archived.keys() - set(told):
        result.fail("lost", f"{where}: {len(lost)} items", len(lost))
    if twice := len(told) - len(set(told)) + len(after.keys() & {*told, *archived}):
        result.fail("doubled", f"{where}: {twice} items", twice)
    if (len(after), len(archived)) != ((_GROUPS, _OLD) if committed else (len(before), 0)):
        result.fail("wrong", f"{where}: {len(after)} items are seen, {len(archived)} archived")
    if any(before[name] != item for name, item in archived.items()):
        result.fail("wrong", f"{where}: an archived item is not what it was")
    for run in committed:
        memory.revert(run)
    if committed and _contents(memory) != before:
        result.fail("wrong", f"{where}: reverting did not restore every byte")


def _finish(memory: Memory, before: Mapping[str, object], result: Result) -> None:
    """Let the last run end."""
    done = memory.consolidate(archive_before=_BEFORE)
    counts = done.removed, len(done.archived), len(memory)
    if counts != ((_COPIES - 1) * _GROUPS, _OLD, _GROUPS):
        result.fail("unrecovered", f"the last one merged, archived and left {counts} items")
    _judge(memory, before, result, "after the last one")


def _contents(memory: Memory) -> dict[str, Mapping[str, object]]:
    return {record.id: dump_item(record) for record in memory.scan()}


def _notes(item: Mapping[str, object]) -> list[Mapping[str, object]]:
    metadata = item.get("metadata")
    found = metadata.get(MERGED) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, list) else []


def _opened(place: str) -> Memory:
    return devmem.open(place, embedding=None)
