"""`devmem validate`: check workflows, and refuse those that cannot be used."""

from __future__ import annotations

import typer

from devmem.cli.failures import EXIT_FAILED
from devmem.cli.findings import show_check
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import WorkflowFiles


def validate(ctx: typer.Context, files: WorkflowFiles) -> None:
    """Check workflows and list every problem.

    Each finding is a line `FILE:LINE: PATH: MESSAGE`, led by its level unless it is an error. A file with warnings
    only is valid. No store is opened.
    `devmem check` is the same for continuous integration.

    Examples:
        devmem validate team.yaml
        devmem validate configs/*.yaml
    """
    from devmem.runtime import check_workflow

    terminal: Terminal = ctx.obj
    checks = [check_workflow(file) for file in files]
    for check in checks:
        show_check(terminal, check)
    if any(check.workflow is None for check in checks):
        raise typer.Exit(EXIT_FAILED)
