"""An exception, and Ctrl-C, at every line of devmem's code that a write, a search, an open or a close runs.

A line tracer (`sys.settrace`) finds the lines, so the product needs no hooks. After each interruption the store must
still work: it takes a write, it finds what was acknowledged, and it locks nobody out.
"""

from __future__ import annotations

import ast
import linecache
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import devmem
import devmem_stores
from devmem import Workflow, load_workflow
from devmem.stores import CollectionMemory, MemoryQuery
from devmem.workflow import make_store
from tools.torture.children import Child
from tools.torture.judge import check_items
from tools.torture.results import Plan, Result
from tools.torture.stores import EMBEDDER, payload, prepare

_ROOTS: Final = (str(Path(devmem.__file__).parent), str(Path(devmem_stores.__file__).parent))
_OPERATIONS: Final = ("open", "write", "search", "close")
_ITEMS: Final = 12
_HANGING: Final = 20
"""Seconds after which a call counts as hanging."""


class InjectedError(Exception):
    """Raised by the tracer."""


class Tracer:
    """Counts the lines of devmem's code and raises at one of them."""

    def __init__(self, at: int | None, error: type[BaseException]) -> None:
        self._at, self._error = at, error
        self._last: dict[FrameType, int] = {}
        self.lines = 0
        self.place = ""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Trace the lines of the block."""
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:  # noqa: ANN401, ARG002
        return self._line if frame.f_code.co_filename.startswith(_ROOTS) else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:  # noqa: ANN401
        if event == "line" and not self._leaves_with(frame) and not _is_try(frame):
            if self.lines == self._at:
                sys.settrace(None)
                self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                self._at = None
                raise self._error(self.place)
            self.lines += 1
        return self._line

    def _leaves_with(self, frame: FrameType) -> bool:
        """Whether the line is that of a `with` statement whose block has ended, just before its `__exit__` is called.

        The interpreter delivers no signal there: it does so after calls, at jumps backwards and where functions start.
        An exception of the tracer would skip `__exit__`, which nothing else can.
        """
        line, last = frame.f_lineno, self._last.get(frame, 0)
        self._last[frame] = line
        end = _with_blocks(frame.f_code.co_filename).get(line)
        return end is not None and line < last <= end


def _is_try(frame: FrameType) -> bool:
    """Whether the line is a bare `try:`: CPython 3.11 has no handler of outer blocks there, and delivers no signal."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() == "try:"


@cache
def _with_blocks(file: str) -> dict[int, int]:
    """Return the first and the last line of each `with` statement of a file."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {
        node.lineno: node.end_lineno or node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
    }


def run(plan: Plan) -> list[Result]:
    """Interrupt every operation of a `simple` store at its lines, in a process of their own."""
    template = prepare(plan.folder / "interrupt", "simple")
    with Child(lambda send: _fill(template, send)) as child:
        acknowledged = set(child.finish())
    return [
        _interrupt_all(plan, template, acknowledged, operation, error)
        for operation in _OPERATIONS
        for error in (InjectedError, KeyboardInterrupt)
    ]


def _fill(folder: Path, send: Callable[[str], None]) -> None:
    store = _opened(folder)
    for number in range(_ITEMS):
        store.update(payload(f"w0x{number}"))
        send(f"w0x{number}")
    store.close()


def _opened(folder: Path) -> CollectionMemory:
    store = make_store(_workflow(folder), "tortured", embedders=lambda _: EMBEDDER)
    assert isinstance(store, CollectionMemory)
    store.load()
    return store


@cache
def _workflow(folder: Path) -> Workflow:
    return load_workflow(folder / "workflow.yaml")


def _interrupt_all(
    plan: Plan, template: Path, acknowledged: set[str], operation: str, error: type[BaseException]
) -> Result:
    result = Result(fault=f"{'exception' if error is InjectedError else 'Ctrl-C'} at every line: {operation}")
    lines = _number_of_lines(template, operation)
    step = max(1, lines // plan.extent(short=12, full=lines))
    with Child(
        lambda send: _interrupt_each(template, acknowledged, operation, error, range(0, lines, step), send)
    ) as c:
        said = c.finish()
    for line in said:
        kind, _, note = line.partition(" ")
        if kind == "tried":
            result.tried += 1
        else:
            result.fail(kind, note)
    if c.status:
        result.fail("unrecovered", f"the process ended with {c.status}")
    result.acknowledged = result.tried * len(acknowledged)
    return result


def _number_of_lines(template: Path, operation: str) -> int:
    def count(send: Callable[[str], None]) -> None:
        tracer = Tracer(None, InjectedError)
        # The first time loads what is loaded once; the second is what every other time is.
        for _ in range(2):
            folder = _copy(template)
            _perform(folder, operation, tracer)
            shutil.rmtree(folder)
            lines, tracer.lines = tracer.lines, 0
        send(str(lines))

    with Child(count) as child:
        return int(child.finish()[0])


def _copy(template: Path) -> Path:
    folder = template.with_name("interrupted")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    return folder


def _perform(folder: Path, operation: str, tracer: Tracer) -> CollectionMemory | None:
    """Run the operation under the tracer; return the store that it was run on."""
    if operation == "open":
        with tracer():
            return _opened(folder)
    store = _opened(folder)
    try:
        with tracer():
            if operation == "write":
                store.update(payload("w9x9"))
            elif operation == "search":
                store.search(MemoryQuery(text="w0x3", limit=3))
            else:
                store.close()
    except BaseException as error:  # what the tracer raised, or what the store made of it
        error.store = store  # type: ignore[attr-defined]
        raise
    return store


def _interrupt_each(
    template: Path,
    acknowledged: set[str],
    operation: str,
    error: type[BaseException],
    lines: range,
    send: Callable[[str], None],
) -> None:
    for at in lines:
        folder = _copy(template)
        tracer = Tracer(at, error)
        store: CollectionMemory | None = None
        try:
            store = _perform(folder, operation, tracer)
        except BaseException as raised:  # noqa: BLE001 - the injected one, or devmem's own made from it
            store = getattr(raised, "store", None)
        finally:
            sys.settrace(None)
        send(f"tried {at}")
        with deadline():
            problems = list(_problems(folder, store, operation, acknowledged))
        for problem in problems:
            send(f"{problem} (line {at} of {operation}, {tracer.place})")


@contextmanager
def deadline() -> Iterator[None]:
    """Raise an error in the block when it takes too long, as where a lock was never released."""

    def hang(*_: object) -> None:
        raise TimeoutError(f"nothing happened for {_HANGING} s")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(_HANGING)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _problems(folder: Path, store: CollectionMemory | None, operation: str, acknowledged: set[str]) -> Iterator[str]:
    """Check that nothing is locked, that the store still works, and that another one sees everything."""
    if locked := _locked(folder):
        yield f"unrecovered the database is locked: {locked}"
        return
    try:
        again = store if store is not None and operation in ("write", "search") else _opened(folder)
        again.update(payload("w8x8"))
        if not any("w8x8" in hit.item.full_text() for hit in again.search(MemoryQuery(text="w8x8", limit=5))):
            yield "wrong a new item is not found"
        again.close()
        check = Result(fault=operation)
        other = _opened(folder)
        check_items(other, acknowledged | {"w8x8"}, check, operation)
        other.close()
        for note in check.notes:
            yield note.split(": ", 2)[1] + " " + note
    except Exception as error:  # noqa: BLE001 - whatever it is, the store cannot be used
        yield f"unrecovered {type(error).__name__}: {str(error)[:120]}"


def _locked(folder: Path) -> str:
    connection = sqlite3.connect(folder / "store.db", timeout=0.05, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        return str(error)
    finally:
        connection.close()
    return ""
