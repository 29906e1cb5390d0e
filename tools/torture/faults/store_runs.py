"""SIGKILL while a run ends in several stores: after the next start it has ended in all of them, or in none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from devmem import MemoryBase, MemoryItem, Workflow, load_workflow, open_stores
from devmem.storage import STATE_FILE
from devmem.stores.abilities import versions_of
from devmem.stores.runs import StoreRun, recover_runs
from devmem.workflow import commit_run, revert_run
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.statements import dying, traced
from tools.torture.results import Plan, Result

_RUN: Final = "r"
_NAMES: Final = ("one", "two", "three")
_ITEMS: Final = 4
_WORKFLOW: Final = f"""
memory:
{"".join(f"  - {{name: {name}, type: simple, config: {{memory_path: {name}.db}}}}{chr(10)}" for name in _NAMES)}
nodes:
  - id: agent
    type: agent
    config: {{provider: extractive, memories: [{", ".join(f"{{name: {name}}}" for name in _NAMES)}]}}
"""

State = list[dict[str, str]]


def run(plan: Plan) -> list[Result]:
    """Kill processes that commit and revert a run in three stores."""
    return [_kill_endings(plan, ending) for ending in ("commit", "revert")]


def _kill_endings(plan: Plan, ending: str) -> Result:
    result, chance = Result(fault=f"store_runs:{ending}"), plan.random("store_runs", ending)
    template = plan.folder / f"store-runs-{ending}"
    before, after = _prepare(template, ending)
    statements = _count(template, plan.folder / "whole", ending)
    for kill in range(plan.extent(short=6, full=170)):
        folder, at = plan.folder / f"killed-{ending}-{kill}", chance.randrange(statements)
        shutil.copytree(template, folder)
        with Child(_ends_and_dies(folder, ending, at)) as child:
            child.finish()
        result.tried += 1
        result.acknowledged += len(_NAMES) * _ITEMS
        where = f"seed {plan.seed}, {ending} killed before statement {at}"
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"{where}: it failed")
        _judge(folder, ending, (before, after), result, where)
        shutil.rmtree(folder)
    return result


def _workflow(folder: Path) -> Workflow:
    return load_workflow(folder / "team.yaml")


def _items(text: str, start: int) -> list[MemoryItem]:
    return [MemoryItem(id=str(at), content_summary=f"{text} {at}") for at in range(start, start + _ITEMS)]


def _prepare(folder: Path, ending: str) -> tuple[State, State]:
    """Make a workflow whose run is to be ended; return the items of its stores before that and after it."""
    folder.mkdir(parents=True)
    (folder / "team.yaml").write_text(_WORKFLOW, encoding="utf-8")
    with open_stores(_workflow(folder)) as stores:
        for store in stores.values():
            store.add(_items("old", 0))
        pending, old = StoreRun(_RUN, stores, decisions=None), _state(stores)
        for store in pending.stores.values():
            store.add(_items("new", 2))
            store.delete(ids=["0"])
        new = _state(pending.stores)
        pending.close()
        if ending == "commit":
            return old, new
        pending.commit()
        return new, old


def _state(stores: Mapping[str, MemoryBase]) -> State:
    return [{item.id: item.content_summary for item in stores[name].recent(99)} for name in _NAMES]


def _end(folder: Path, stores: Mapping[str, MemoryBase], ending: str) -> None:
    if ending == "commit":
        commit_run(_workflow(folder), stores, _RUN, folder / "session")
    else:
        revert_run(_workflow(folder), stores, _RUN, folder / "session")


def _count(template: Path, folder: Path, ending: str) -> int:
    """Return the number of statements that the whole ending runs."""
    shutil.copytree(template, folder)
    done: list[str] = []
    with traced(done.append), open_stores(_workflow(folder)) as stores:
        opening = len(done)
        _end(folder, stores, ending)
        statements = len(done) - opening
    shutil.rmtree(folder)
    return statements


def _ends_and_dies(folder: Path, ending: str, at: int) -> Callable[[Callable[[str], None]], None]:
    def work(_send: Callable[[str], None]) -> None:
        with dying() as die_at, open_stores(_workflow(folder)) as stores:
            die_at(at)
            _end(folder, stores, ending)

    return work


def _judge(folder: Path, ending: str, states: tuple[State, State], result: Result, where: str) -> None:
    before, after = states
    with open_stores(_workflow(folder)) as stores:
        recover_runs(folder / "session" / STATE_FILE, stores)
        if (found := _state(stores)) not in states:
            result.fail("wrong", f"{where}: neither in all stores nor in none: {found}")
            return
        if found == before:
            _end(folder, stores, ending)
        if (found := _state(stores)) != after:
            result.fail("lost", f"{where}: after another try: {found}")
        infos = [versions_of(stores[name]).find_run(_RUN) for name in _NAMES]
        if len({info and info.state for info in infos}) > 1:
            result.fail("wrong", f"{where}: the run has another state in each store: {infos}")
    if list((folder / "session" / "runs").glob("*")):
        result.fail("unrecovered", f"{where}: the decision is still there")
