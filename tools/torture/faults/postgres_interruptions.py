"""An exception, and Ctrl-C, at every line that a call on a store in PostgreSQL runs, and processes forked beside one.

After each interruption the same store takes a write and finds it, another process's view has every acknowledged item
once, and no session of the server is left in a transaction. A store of two connections would run out of them soon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg

from devmem.errors import DevmemError
from devmem.stores import CollectionMemory, MemoryQuery
from tools.postgres_server import PostgresServer
from tools.torture.children import Child
from tools.torture.faults.interruptions import InjectedError, Tracer, deadline
from tools.torture.judge import check_items, tokens_of
from tools.torture.results import Plan, Result
from tools.torture.stores import opened, payload, prepare_at

_OPERATIONS: Final = ("write", "search", "forget", "open")
_LOOKS: Final = 50
"""Number of times, a tenth of a second apart, that sessions in a transaction are looked for before they count."""
_LEFT: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND state LIKE 'idle in transaction%'"
)


def run(plan: Plan) -> list[Result]:
    """Interrupt each operation at its lines, and fork, against a server of its own."""
    with closing(PostgresServer()) as server:
        results = [
            _interrupt_all(plan, server, operation, error)
            for operation in _OPERATIONS
            for error in (InjectedError, KeyboardInterrupt)
        ]
        return [*results, _forks(plan, server)]


def _interrupt_all(plan: Plan, server: PostgresServer, operation: str, error: type[BaseException]) -> Result:
    kind = "exception" if error is InjectedError else "Ctrl-C"
    result = Result(fault=f"{kind} at every line under PostgreSQL: {operation}")
    url = server.url(store=f"{operation} {kind}", connections="2")
    folder = prepare_at(plan.folder / f"pg-{operation}-{kind}", "simple", url)
    with Child(lambda send: _interrupt_each(plan, server, folder, operation, error, send)) as child:
        said = child.finish()
    for line in said:
        kind, _, note = line.partition(" ")
        if kind == "tried":
            result.tried += 1
        elif kind == "acked":
            result.acknowledged += 1
        else:
            result.fail(kind, f"seed {plan.seed}: {note}")
    if child.status:
        result.fail("unrecovered", f"the process ended with {child.status}")
    return result


def _interrupt_each(
    plan: Plan,
    server: PostgresServer,
    folder: Path,
    operation: str,
    error: type[BaseException],
    send: Callable[[str], None],
) -> None:
    acknowledged = {"w0x0"}
    with opened(folder) as store, psycopg.connect(server.url().partition("&")[0], autocommit=True) as watcher:
        store.update(payload("w0x0"))
        lines = 0
        # The first time loads what is loaded once.
        for turn in (1, 2):
            counting = Tracer(None, error)
            with counting():
                _perform(folder, store, operation, f"w0x{turn}")
            lines = counting.lines
        step = max(1, lines // plan.extent(short=8, full=400))
        for at in range(0, lines, step):
            tracer, token = Tracer(at, error), f"w1x{at}"
            if operation == "forget":
                store.update(payload(token))
            try:
                with tracer():
                    _perform(folder, store, operation, token)
            except (InjectedError, KeyboardInterrupt, DevmemError):
                pass
            finally:
                sys.settrace(None)
            send(f"tried {at}")
            with deadline():
                for problem in _problems(store, watcher, acknowledged, f"w2x{at}"):
                    send(f"{problem} (line {at} of {operation}, {tracer.place})")
            send("acked")
        for problem in _seen_by_another(folder, acknowledged):
            send(problem)


def _perform(folder: Path, store: CollectionMemory, operation: str, token: str) -> None:
    if operation == "write":
        store.update(payload(token))
    elif operation == "search":
        store.search(MemoryQuery(text="w0x0", limit=3))
    elif operation == "forget":
        found = [item.id for item in store.scan() if token in item.full_text()]
        store.erase(ids=found)
    else:
        with opened(folder):
            pass


def _problems(
    store: CollectionMemory, watcher: psycopg.Connection, acknowledged: set[str], token: str
) -> Iterator[str]:
    """Check that the same store goes on, and that no session is left in a transaction."""
    try:
        store.update(payload(token))
        acknowledged.add(token)
        if not any(token in hit.item.full_text() for hit in store.search(MemoryQuery(text=token, limit=5))):
            yield "wrong a new item is not found"
    except Exception as error:  # noqa: BLE001 - whatever it is, the store cannot be used
        yield f"unrecovered {type(error).__name__}: {str(error)[:120]}"
    if left := _left_in_transactions(watcher):
        yield f"unrecovered {left} sessions are left in a transaction"


def _left_in_transactions(watcher: psycopg.Connection) -> int:
    """Return the number of sessions that stay in a transaction; on a busy machine one may be between statements."""
    left = 0
    for _ in range(_LOOKS):
        ((left,),) = watcher.execute(_LEFT).fetchall()
        if not left:
            break
        watcher.execute("SELECT pg_sleep(0.1)")
    return int(left)


def _seen_by_another(folder: Path, acknowledged: set[str]) -> Iterator[str]:
    check = Result(fault="another process")
    with opened(folder) as other:
        check_items(other, acknowledged, check, "another store")
    for note in check.notes:
        yield note.split(": ", 2)[1] + " " + note


def _forks(plan: Plan, server: PostgresServer) -> Result:
    """Fork while the parent's store is open; the child uses a store of its own, and both go on."""
    result = Result(fault="fork beside an open store in PostgreSQL")
    folder = prepare_at(plan.folder / "pg-forks", "simple", server.url(store="forks"))
    forks = plan.extent(short=3, full=50)

    def parent(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            for fork in range(forks):
                store.update(payload(f"w{fork}x0"))
                with Child(_child_of(folder, f"w{fork}x1")) as child:
                    store.update(payload(f"w{fork}x2"))
                    said = child.finish()
                for line in (f"w{fork}x0", f"w{fork}x2", *said):
                    send(line)
                if not set(tokens_of(store)) >= {f"w{fork}x{number}" for number in range(3)}:
                    send(f"missing {fork}")

    with Child(parent) as child:
        said = child.finish()
    acknowledged = {line for line in said if not line.startswith("missing")}
    result.tried, result.acknowledged = forks, len(acknowledged)
    if child.status or len(acknowledged) != 3 * forks or len(said) != len(acknowledged):
        result.fail("unrecovered", f"{len(acknowledged)} of {3 * forks} writes, exit code {child.status}")
    with opened(folder) as store:
        check_items(store, acknowledged, result, "forks")
    return result


def _child_of(folder: Path, token: str) -> Callable[[Callable[[str], None]], None]:
    def write(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            store.update(payload(token))
            send(token)

    return write
