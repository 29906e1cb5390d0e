"""Findings of checked workflows on a terminal."""

from __future__ import annotations

from typing import Final

from devmem.cli.terminal import Terminal
from devmem.config import Workflow
from devmem.errors import Level
from devmem.runtime import WorkflowCheck

_STYLES: Final = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "dim"}


def show_check(terminal: Terminal, check: WorkflowCheck) -> None:
    """Print every finding as `FILE:LINE: PATH: MESSAGE`, led by its level unless it is an error; then a summary."""
    for finding in check.findings:
        level = "" if finding.level is Level.ERROR else f"{finding.level}: "
        terminal.print(terminal.masked(f"{level}{finding}"), style=_STYLES[finding.level])
    if check.workflow is not None:
        counted = [number_of(count, level.value) for level in Level if (count := check.count(level))]
        terminal.print(f"{check.file}: OK: {', '.join([*summary_of(check.workflow), *counted])}", style="green")


def summary_of(workflow: Workflow) -> list[str]:
    """Return the numbers of stores, nodes, edges and attachments in words."""
    agents = sum(node.config is not None for node in workflow.nodes)
    attached = sum(len(node.config.memories) for node in workflow.nodes if node.config is not None)
    return [
        number_of(len(workflow.memory), "store"),
        number_of(len(workflow.nodes), "node") + f" ({number_of(agents, 'agent')})",
        number_of(len(workflow.edges), "edge"),
        number_of(attached, "attachment"),
    ]


def number_of(count: int, thing: str) -> str:
    """Return a number of things in words: `1 store`, `2 stores`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
