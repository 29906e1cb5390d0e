"""`devmem plan`: what a run of a workflow reads, writes and sends away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from devmem.cli.inputs import Output, deliver
from devmem.cli.targets import AsJson, WorkflowFile
from devmem.cli.terminal import Terminal
from devmem.views.diagrams import mermaid_plan
from devmem.workflow.plan import Destination, StoreAccess, StorePlan, WorkflowPlan
from devmem.workflow.plan import plan as plan_of_file


class PlanFormat(StrEnum):
    """Formats of a plan."""

    TABLE = "table"
    """Tables for people."""
    MERMAID = "mermaid"
    """A Mermaid flowchart: who reads and writes what at which stage, and what leaves the machine."""


def plan(
    ctx: typer.Context,
    file: WorkflowFile,
    plan_format: Annotated[PlanFormat, typer.Option("--format", help="`table` or `mermaid`.")] = PlanFormat.TABLE,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run will read, write and send away, without running it.

    Who reads and writes which store at which stage, with the limits in force; what data is sent where;
    and likely mistakes, such as a store that is never read. Nothing is opened, called or written.

    Examples:
        devmem plan team.yaml
        devmem plan team.yaml --format mermaid --output plan.mmd
    """
    terminal: Terminal = ctx.obj
    found = plan_of_file(file)
    if as_json:
        terminal.json(asdict(found))
    elif plan_format is PlanFormat.MERMAID:
        deliver(terminal, mermaid_plan(found), output)
    else:
        _print(terminal, found)


def _print(terminal: Terminal, found: WorkflowPlan) -> None:
    _section(
        terminal,
        "Who reads and writes what",
        ("agent", "store", "reads at", "writes at", "limits"),
        map(_access_row, found.accesses),
        "no agent is attached to a store",
    )
    _section(
        terminal,
        "Stores",
        ("store", "type", "read by", "written by", "embedding", "location"),
        map(_store_row, found.stores),
        "none",
    )
    _section(
        terminal,
        "Data that is sent to a service",
        ("address", "machine", "data"),
        map(_destination_row, found.destinations),
        "none: everything stays in this process and its files",
    )
    for name in found.not_run:
        terminal.report("warning", f"node {name!r} will not run: no edge that devmem may follow leads to it")
    for finding in found.findings:
        terminal.report(finding.level.value, f"{finding}")


def _section(
    terminal: Terminal, title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], empty: str
) -> None:
    listed = list(rows)
    terminal.print(title if listed else f"{title}: {empty}")
    if listed:
        terminal.table(columns, listed)
    terminal.print()


def _access_row(access: StoreAccess) -> tuple[str, ...]:
    return access.agent, access.store, ", ".join(access.reads_at), ", ".join(access.writes_at), limits_text(access)


def limits_text(access: StoreAccess) -> str:
    """Return the limits of an access in words: of reads, then of writes."""
    limits = {
        "top_k": access.top_k,
        "similarity >=": access.similarity_threshold,
        "score >=": access.min_relevance,
        "trust >=": access.min_trust or None,
        "budget": access.token_budget,
        "where": access.where or None,
    }
    read = [f"{name} {value}" for name, value in limits.items() if value is not None] if access.reads_at else []
    return ", ".join([*read, *([f"ttl {access.ttl:g} s"] if access.ttl is not None and access.writes_at else [])])


def _store_row(store: StorePlan) -> tuple[str, ...]:
    embedding = store.embedding or "words alone"
    return store.name, store.type, ", ".join(store.readers), ", ".join(store.writers), embedding, store.location


def _destination_row(place: Destination) -> tuple[str, ...]:
    return place.address, "another" if place.leaves else "this", "; ".join(place.data)
