"""`devmem validate`: check workflows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmem.cli.failures import EXIT_FAILED
from devmem.cli.terminal import Terminal
from devmem.config import Workflow
from devmem.errors import ConfigError


def validate(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Workflows to check.")],
) -> None:
    """Check workflows and list every problem.

    Each problem is a line `FILE:LINE: PATH: MESSAGE`. A file with warnings only is valid. No store is opened.

    Examples:
        devmem validate configs/*.yaml
    """
    from devmem.runtime.loading import load_workflow

    terminal: Terminal = ctx.obj
    is_bad = False
    for file in files:
        try:
            workflow = load_workflow(file)
        except ConfigError as error:
            is_bad = True
            for problem in error.problems:
                terminal.print(str(problem), style="red")
            continue
        for warning in workflow.warnings:
            terminal.print(f"warning: {warning}", style="yellow")
        terminal.print(f"{file}: OK: {_counts(workflow)}", style="green")
    if is_bad:
        raise typer.Exit(EXIT_FAILED)


def _counts(workflow: Workflow) -> str:
    agents = sum(node.config is not None for node in workflow.nodes)
    attached = sum(len(node.config.memories) for node in workflow.nodes if node.config is not None)
    parts = [
        _many(len(workflow.memory), "store"),
        _many(len(workflow.nodes), "node") + f" ({_many(agents, 'agent')})",
        _many(len(workflow.edges), "edge"),
        _many(attached, "attachment"),
    ]
    return ", ".join(parts) + (f", {_many(len(workflow.warnings), 'warning')}" if workflow.warnings else "")


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
