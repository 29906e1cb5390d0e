"""Bringing stores of files up to date, with a progress bar."""

from __future__ import annotations

from devmem.cli.terminal import Terminal
from devmem.stores import Indexing, IndexPlan, IndexReport, IndexStep, MemoryBase


def index_with_progress(terminal: Terminal, name: str, store: Indexing, *, rebuild: bool = False) -> IndexReport:
    """Index a store of files while a bar shows the progress, where a person watches."""
    with terminal.progress(f"indexing {name}", None) as bar:

        def show(step: IndexStep) -> None:
            what = f"indexing {name}: {step.chunks:,} chunks, files"
            bar.update(bar.task_ids[0], completed=step.files, total=step.total, description=what)

        return store.index(show, rebuild=rebuild)


def load_with_progress(terminal: Terminal, store: MemoryBase) -> None:
    """Load a store; of one that is made from files, show the progress and print the changes."""
    if isinstance(store, Indexing):
        report = index_with_progress(terminal, store.name, store)
        if not report.is_empty():
            terminal.report("note", f"{store.name}: {report_text(report)}")
    store.load()


def plan_text(plan: IndexPlan) -> str:
    """Return the numbers of new, changed, renamed, deleted and unchanged files."""
    counts = {kind: len(getattr(plan, kind)) for kind in ("new", "changed", "renamed", "deleted")}
    return ", ".join(
        [*(f"{count:,} {kind}" for kind, count in counts.items() if count), f"{plan.unchanged:,} unchanged"]
    )


def report_text(report: IndexReport) -> str:
    """Return what an indexing did, and the size of the index."""
    return (
        f"{plan_text(report)}; {report.files:,} files in {report.chunks:,} chunks, {report.embedded:,} embedded now, "
        f"{report.seconds:.1f} s"
    )
