"""SIGKILL while old versions and items are removed, and while files are indexed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

from devmem import load_workflow
from devmem.model.items import MemoryItem
from devmem.storage import SearchQuery, SqliteCollection
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.examination import examine_store
from devmem.storage.sqlite.examination import examine, report_of
from devmem.stores import CollectionMemory
from devmem.testing import HashEmbedder, ManualClock
from devmem.workflow import make_store
from tools.postgres_server import USER, PostgresServer
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.statements import Trace, dying, traced, traced_postgres
from tools.torture.judge import TOKEN, tokens_of
from tools.torture.results import Plan, Result
from tools.torture.stores import EMBEDDER as FILES_EMBEDDER

_EMBEDDER: Final = HashEmbedder(dimension=16)
_ITEMS: Final = 40
_MONTH: Final = 30 * 86_400.0
_MADE: Final = 1e9
_MOST_WRITES: Final = 12
_WORKFLOW: Final = """\
memory:
  - name: tortured
    type: file
    config:
      index_path: index.db
      file_sources: [{path: docs}]
      embedding: {provider: openai, model: hash, api_key: unused, base_url: 'http://127.0.0.1:9/v1'}
"""

Versioned = SqliteCollection | PostgresCollection
Open = Callable[[], Versioned]
Work = Callable[[], None]


def run(plan: Plan) -> list[Result]:
    """Kill removals from SQLite files and a PostgreSQL database, and the indexing of files."""
    with closing(PostgresServer()) as server:
        return [
            _kill_sqlite_removals(plan),
            _kill_postgres_removals(plan, server),
            _kill_indexing(plan),
        ]


def _kill_sqlite_removals(plan: Plan) -> Result:
    """Kill writes that remove versions which are older than the history is kept, and a trimming by age."""
    result, folder = (
        Result(fault="kill while old versions and items of a SQLite file are removed"),
        _folder(plan, "old"),
    )
    template = folder / "template.db"
    with closing(_sqlite(template)) as store:
        _age(store)
    statements = _number_of(traced, lambda: _remove(lambda: _sqlite(_copied(template, "whole"), _later())))
    for at in _points(plan, statements):
        path = _copied(template, f"{at}")
        _kill(traced, at, lambda path=path: _remove(lambda: _sqlite(path, _later())), result)  # type: ignore[misc]
        where = f"seed {plan.seed}, statement {at} of {statements}"
        with closing(_sqlite(path, _later())) as store:
            _judge_removal(store, where, result)
        if (found := examine(path)).orphans or not report_of(found).is_sound:
            result.fail("wrong", f"{where}: {found}")
    return result


def _kill_postgres_removals(plan: Plan, server: PostgresServer) -> Result:
    result, template = Result(fault="kill while old versions and items of PostgreSQL are removed"), "removals"
    server.copy_database(USER, template)
    with closing(_postgres(server, template)) as store:
        _age(store)
    server.copy_database(template, "whole")
    statements = _number_of(traced_postgres, lambda: _remove(lambda: _postgres(server, "whole", _later())))
    server.drop_database("whole")
    for at in _points(plan, statements):
        name = f"{template}_{at}"
        server.copy_database(template, name)
        work = lambda name=name: _remove(lambda: _postgres(server, name, _later()))  # noqa: E731
        _kill(traced_postgres, at, work, result)
        where = f"seed {plan.seed}, statement {at} of {statements}"
        with closing(_postgres(server, name, _later())) as store:
            _judge_removal(store, where, result)
        _examine_postgres(server, name, where, result)
        server.drop_database(name)
    return result


def _folder(plan: Plan, name: object) -> Path:
    folder = plan.folder / f"upkeep-{name}"
    folder.mkdir(parents=True)
    return folder


def _copied(template: Path, name: str) -> Path:
    return Path(shutil.copy(template, template.with_name(f"{name}.db")))


def _later() -> ManualClock:
    clock = ManualClock()
    clock.now = _MADE + 3 * _MONTH
    return clock


def _sqlite(path: Path, clock: ManualClock | None = None) -> SqliteCollection:
    return SqliteCollection(path, model=_EMBEDDER.identity, clock=clock or _earlier(), history_days=30)


def _postgres(server: PostgresServer, database: str, clock: ManualClock | None = None) -> PostgresCollection:
    url = server.url(database, store="tortured")
    return PostgresCollection(url, model=_EMBEDDER.identity, clock=clock or _earlier(), history_days=30)


def _earlier() -> ManualClock:
    clock = ManualClock()
    clock.now = _MADE
    return clock


def _items(text: str = "first", count: int = _ITEMS) -> list[MemoryItem]:
    texts = [f"{text} w{number}x1" for number in range(count)]
    return [
        MemoryItem(id=f"{number}", content_summary=text, created_at=_MADE, embedding=_EMBEDDER.vector(text))
        for number, text in enumerate(texts)
    ]


def _age(store: Versioned) -> None:
    """Replace some items, and delete one of them, so that they have older versions."""
    store.add(_items())
    store.add(_items("second", _ITEMS // 2))
    store.delete(ids=["0"])


def _remove(opened: Open) -> None:
    """Write, which removes old versions, and remove the items that were stored before a time."""
    with closing(opened()) as store:
        for number in range(_MOST_WRITES):
            text = f"new w{number}x9"
            item = MemoryItem(id=f"new {number}", content_summary=text, embedding=_EMBEDDER.vector(text))
            store.add([item])
        store.trim(stored_before=_MADE + 1)


def _points(plan: Plan, statements: int) -> list[int]:
    """Return the statements before which a process is killed, and one more: killed after the last."""
    step = max(1, statements // plan.extent(short=4, full=60))
    return [*range(0, statements, step), statements]


def _number_of(trace: Trace, work: Work) -> int:
    """Return the number of statements of some work; the child that counts leaves nothing open here."""

    def count(send: Callable[[str], None]) -> None:
        done: list[str] = []
        with trace(done.append):
            work()
        send(str(len(done)))

    with Child(count) as child:
        return int(child.finish()[0])


def _kill(trace: Trace, at: int, work: Work, result: Result) -> None:
    def die(_send: Callable[[str], None]) -> None:
        with dying(trace) as die_at:
            die_at(at)
            work()

    with Child(die) as child:
        child.finish()
    result.tried += 1
    result.acknowledged += _ITEMS
    if child.status == EXIT_FAILED:
        result.fail("unrecovered", f"it failed before statement {at}")


def _judge(store: Versioned, where: str, result: Result) -> None:
    """Check that every item is there once, and found by its word."""
    found = {item.id: item.content_summary for item in store.scan()}
    wanted = {item.id: item.content_summary for item in _items()}
    if lost := wanted.keys() - found.keys():
        result.fail("lost", f"{where}: {sorted(lost)[:3]}", len(lost))
    elif found != wanted:
        result.fail("wrong", f"{where}: items are others")
    if [hit.item.id for hit in store.search(SearchQuery(text="w7x1", limit=1))] != ["7"]:
        result.fail("wrong", f"{where}: an item is not found by its word")


def _judge_removal(store: Versioned, where: str, result: Result) -> None:
    """Check that items went all together, or not at all, and no later than those before them."""
    found = {item.id for item in store.scan()}
    old, new = {one for one in found if not one.startswith("new")}, {one for one in found if one.startswith("new")}
    if new != {f"new {number}" for number in range(len(new))}:
        result.fail("lost", f"{where}: {sorted(new)}")
    if len(old) not in (0, _ITEMS - 1) or (not old and len(new) != _MOST_WRITES):
        result.fail("wrong", f"{where}: {len(old)} old items and {len(new)} new ones")
    named = {hit.item.id for hit in store.search(SearchQuery(text="first second new", limit=99))}
    if named != found:
        result.fail("leaked", f"{where}: found are {sorted(named ^ found)[:3]} too, or are not")
    _remove_again(store, result, where)


def _remove_again(store: Versioned, result: Result, where: str) -> None:
    store.trim(stored_before=_MADE + 1)
    store.add(_items("last", 1))
    if any(not item.id.startswith("new") and item.id != "0" for item in store.scan()):
        result.fail("unrecovered", f"{where}: old items are not removed later")


def _examine_postgres(server: PostgresServer, database: str, where: str, result: Result) -> None:
    report = examine_store(server.url(database, store="tortured"))
    orphans = [one.message for one in report.findings if "without" in one.message]
    if not report.is_sound or orphans:
        result.fail("wrong", f"{where}: {[one.message for one in report.findings]}")


def _kill_indexing(plan: Plan) -> Result:
    """Change a folder, kill the process that indexes it at a random moment, and index it again."""
    result, chance = Result(fault="kill:file"), plan.random("upkeep", "file")
    folder = _folder(plan, "files")
    (folder / "docs").mkdir()
    (folder / "workflow.yaml").write_text(_WORKFLOW, encoding="utf-8")
    for round_ in range(plan.extent(short=6, full=200)):
        _change(folder / "docs", round_, chance)
        with Child(lambda send: _index(folder, send)) as child:
            child.wait_for_lines(1, 10.0)
            child.wait_for_lines(99, chance.random() * 0.15)
            child.kill()
        result.tried += 1
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"seed {plan.seed}, round {round_}: indexing failed before it was killed")
        if round_ % 3 == 2:
            result.acknowledged = _judge_index(folder, f"seed {plan.seed}, round {round_}", result)
    return result


def _change(docs: Path, round_: int, chance: Random) -> None:
    """Write some files, change some and delete some."""
    for number in range(6):
        file = docs / f"{chance.randrange(30)}.md"
        if file.exists() and chance.random() < 0.3:
            file.unlink()
        else:
            words = "".join(f"## Part {part}\n\nIt tells of w{round_}x{number}{part}.\n\n" for part in range(3))
            file.write_text(f"# Notes\n\n{words}", encoding="utf-8")


def _opened(folder: Path) -> CollectionMemory:
    store = make_store(load_workflow(folder / "workflow.yaml"), "tortured", embedders=lambda _: FILES_EMBEDDER)
    assert isinstance(store, CollectionMemory)
    return store


def _index(folder: Path, send: Callable[[str], None]) -> None:
    store = _opened(folder)
    send("begins")
    store.load()
    store.close()


def _judge_index(folder: Path, where: str, result: Result) -> int:
    """Compare the index with the files; return the number of their words."""
    wanted = set(_words(folder / "docs"))
    with Child(lambda send: _tell(folder, send)) as child:
        said = child.finish()
    if child.status:
        result.fail("unrecovered", f"{where}: it cannot be indexed: {child.status}")
    found = {token for token, count in (line.split() for line in said) if count}
    if lost := wanted - found:
        result.fail("lost", f"{where}: {sorted(lost)[:3]}", len(lost))
    if stale := found - wanted:
        result.fail("leaked", f"{where}: of files that are gone: {sorted(stale)[:3]}", len(stale))
    if doubled := [line for line in said if not line.endswith(" 1")]:
        result.fail("doubled", f"{where}: {doubled[:3]}", len(doubled))
    return len(wanted)


def _words(docs: Path) -> Iterator[str]:
    for file in docs.iterdir():
        yield from TOKEN.findall(file.read_text(encoding="utf-8"))


def _tell(folder: Path, send: Callable[[str], None]) -> None:
    store = _opened(folder)
    store.load()
    for token, count in tokens_of(store).items():
        send(f"{token} {count}")
    store.close()
