"""`devmem index`: bring stores of files up to date."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.indexing import index_with_progress, plan_text, report_text
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, WorkflowFile, load, location_of, make
from devmem.config import Workflow
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import Indexing, IndexPlan, IndexReport, MemoryBase

_SIGNS = (("new", "+"), ("changed", "~"), ("deleted", "-"))


def index(
    ctx: typer.Context,
    file: WorkflowFile,
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE]", help="Store; without it, every store of files.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow changes until interrupted.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Read every file again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the changes and write nothing.")] = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Bring a store of files up to date.

    Only new, changed and deleted files are processed. An interrupted run continues when it is run again. A file that
    cannot be indexed is reported, and the exit code is 1.

    Examples:
        devmem index configs/documents.yaml docs
    """
    terminal: Terminal = ctx.obj
    workflow = load(terminal, file)
    stores = [_make(workflow, name, session) for name in _names(workflow, store, session)]
    failed = False
    try:
        for memory in stores:
            failed |= _plan(terminal, memory, rebuild) if dry_run else _index(terminal, memory, rebuild)
        if watch and not dry_run:
            _watch(terminal, stores)
    finally:
        for memory in stores:
            memory.close()
    if failed:
        raise typer.Exit(EXIT_PARTLY)


def _names(workflow: Workflow, store: str | None, session: str) -> list[str]:
    if store is not None:
        return [store]
    names = [each.name for each in workflow.memory if isinstance(make(workflow, each.name, session), Indexing)]
    if not names:
        raise CommandError(f"{workflow.file or 'workflow'}: no store in this workflow is made from files.")
    return names


def _make(workflow: Workflow, name: str, session: str) -> MemoryBase:
    memory = make(workflow, name, session)
    if not isinstance(memory, Indexing):
        raise CommandError(
            f"memory store {name!r} is of type {memory.setup.store_type!r}, which is not made from files: "
            "there is nothing to index."
        )
    return memory


def _plan(terminal: Terminal, memory: MemoryBase, rebuild: bool) -> bool:
    assert isinstance(memory, Indexing)  # noqa: S101 - `_make` has seen to it
    plan = memory.plan(rebuild=rebuild)
    _list(terminal, plan)
    terminal.print(f"{memory.name}: {plan_text(plan)}; nothing was written")
    return _report_problems(terminal, memory, plan)


def _index(terminal: Terminal, memory: MemoryBase, rebuild: bool) -> bool:
    assert isinstance(memory, Indexing)  # noqa: S101 - `_make` has seen to it
    report = index_with_progress(terminal, memory.name, memory, rebuild=rebuild)
    terminal.print(f"{memory.name}: {report_text(report)}")
    if location_of(memory) is None:
        terminal.report("note", f"{memory.name} has no `index_path`, so its index ends with this command")
    return bool(report.problems)  # which the store has logged


def _watch(terminal: Terminal, stores: list[MemoryBase]) -> None:
    for memory in stores:
        assert isinstance(memory, Indexing)  # noqa: S101 - `_make` has seen to it
        name = memory.name

        def tell(report: IndexReport, name: str = name) -> None:
            _list(terminal, report)
            terminal.print(f"{name}: {report_text(report)}")

        memory.watch(tell)
    terminal.report("note", "following changes; Ctrl-C ends it")
    threading.Event().wait()


def _list(terminal: Terminal, plan: IndexPlan) -> None:
    for kind, sign in _SIGNS:
        for name in getattr(plan, kind):
            terminal.print(f"{sign} {name}")
    for old, new in plan.renamed:
        terminal.print(f"> {old} -> {new}")


def _report_problems(terminal: Terminal, memory: MemoryBase, plan: IndexPlan) -> bool:
    for reason in plan.reasons:
        terminal.report("note", f"{memory.name}: {reason}")
    for name, problem in plan.problems.items():
        terminal.report("error", f"{memory.name}: {name}: {problem}")
    return bool(plan.problems)
