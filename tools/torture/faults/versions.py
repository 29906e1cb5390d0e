"""SIGKILL at every point of the commit, the discard and the revert of a run: all of it is there, or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from devmem.model.items import MemoryItem
from devmem.model.versions import RunState
from devmem.storage import Collection, SearchQuery, SqliteCollection
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.sqlite.examination import examine, report_of
from devmem.testing import HashEmbedder
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.statements import dying, traced
from tools.torture.results import Plan, Result

EMBEDDER = HashEmbedder(dimension=16)
ENDINGS = ("commit", "discard", "revert")
_ITEMS = 12
_RUN = "r"
_MOST_STATEMENTS = 400

State = dict[str, str]
Versioned = SqliteCollection | PostgresCollection


def run(plan: Plan) -> list[Result]:
    """Kill processes that end runs."""
    return [_kill_endings(plan, ending) for ending in ENDINGS]


def _kill_endings(plan: Plan, ending: str) -> Result:
    result, chance = Result(fault=f"versions:{ending}"), plan.random("versions", ending)
    folder = plan.folder / f"versions-{ending}"
    folder.mkdir(parents=True)
    template = folder / "template.db"
    with closing(_opened(template)) as collection:
        before, after = prepare_run(collection, ending)
    statements = _count(template, folder / "whole.db", ending)
    for kill in range(plan.extent(short=6, full=170)):
        path, at = folder / f"{kill}.db", chance.randrange(statements)
        shutil.copy(template, path)
        with Child(_ends_and_dies(path, ending, at)) as child:
            child.finish()
        result.tried += 1
        result.acknowledged += len(before)
        where = f"seed {plan.seed}, {ending} killed before statement {at}"
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"{where}: it failed")
        _judge(path, ending, before, after, result, where)
        for file in folder.glob(f"{kill}.db*"):
            file.unlink()
    return result


def _opened(path: Path) -> SqliteCollection:
    return SqliteCollection(path, model=EMBEDDER.identity)


def _items(text: str, numbers: range) -> list[MemoryItem]:
    texts = [f"{text} {number}" for number in numbers]
    return [
        MemoryItem(id=f"{number}", content_summary=text, embedding=EMBEDDER.vector(text))
        for number, text in zip(numbers, texts, strict=True)
    ]


def prepare_run(collection: Versioned, ending: str) -> tuple[State, State]:
    """Write a run that is to be ended; return the items of the collection before that and after it."""
    collection.add(_items("old", range(_ITEMS)))
    old = _state(collection)
    with closing(collection.run(_RUN)) as view:
        view.add(_items("new", range(_ITEMS // 2, _ITEMS + 4)))
        view.delete(ids=["0", "1"])
        new = _state(view)
    if ending == "revert":
        collection.commit(_RUN)
    return {"commit": (old, new), "discard": (old, old), "revert": (new, old)}[ending]


def _state(collection: Collection) -> State:
    return {item.id: item.content_summary for item in collection.scan()}


def end_run(collection: Versioned, ending: str) -> None:
    """End the run."""
    {"commit": collection.commit, "discard": collection.discard, "revert": collection.revert}[ending](_RUN)


def _count(template: Path, path: Path, ending: str) -> int:
    """Return the number of statements that the whole ending runs."""
    shutil.copy(template, path)
    done: list[str] = []
    with traced(done.append), closing(_opened(path)) as collection:
        opening = len(done)
        end_run(collection, ending)
        return min(len(done) - opening, _MOST_STATEMENTS)


def _ends_and_dies(path: Path, ending: str, at: int) -> Callable[[Callable[[str], None]], None]:
    def work(_send: Callable[[str], None]) -> None:
        with dying() as die_at, closing(_opened(path)) as collection:
            die_at(at)
            end_run(collection, ending)

    return work


def _judge(path: Path, ending: str, before: State, after: State, result: Result, where: str) -> None:
    with closing(_opened(path)) as collection:
        judge_run(collection, ending, before, after, result, where)
    examined = examine(path)
    if examined.orphans or not report_of(examined).is_sound:
        result.fail("wrong", f"{where}: {examined}")


def judge_run(collection: Versioned, ending: str, before: State, after: State, result: Result, where: str) -> None:
    """Check that the run has ended or has not, and end it where it has not."""
    if (found := _state(collection)) not in (before, after):
        result.fail("wrong", f"{where}: neither all nor nothing: {found}")
        return
    info = collection.find_run(_RUN)
    if found == before and (ending != "discard" or info is None or info.state is RunState.PENDING):
        end_run(collection, ending)
    if (found := _state(collection)) != after:
        result.fail("lost", f"{where}: after another try: {found}")
    hits = collection.search(SearchQuery(text="old new", limit=99))
    if {hit.item.content_summary for hit in hits} != set(after.values()):
        result.fail("leaked", f"{where}: {sorted(hit.item.content_summary for hit in hits)} are found")
