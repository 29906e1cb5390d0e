"""`devmem check`: the findings of workflows for continuous integration."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.findings import show_check
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import WorkflowFiles
from devmem.errors import Level


class CheckFormat(StrEnum):
    """Formats of the findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    ctx: typer.Context,
    files: WorkflowFiles,
    report_format: Annotated[
        CheckFormat, typer.Option("--format", help="`text`, `json`, or `sarif` for code scanning.")
    ] = CheckFormat.TEXT,
    fail_on: Annotated[
        Level, typer.Option("--fail-on", help="Lowest level of a finding that makes the exit code 1.")
    ] = Level.ERROR,
) -> None:
    """Check workflows in continuous integration.

    Findings are errors, warnings and notes, each with its file, line and rule. The exit code is 0 when there is none
    of the level `--fail-on` or above, otherwise 1. No store is opened.

    Examples:
        devmem check team.yaml --fail-on warning
        devmem check configs/*.yaml --format sarif > devmem.sarif
    """
    from devmem.distribution import installed_version
    from devmem.runtime import check_workflow
    from devmem.views.findings import checks_json, checks_sarif

    terminal: Terminal = ctx.obj
    checks = [check_workflow(file) for file in files]
    if report_format is CheckFormat.JSON:
        terminal.json(checks_json(checks), indent=2)
    elif report_format is CheckFormat.SARIF:
        terminal.json(checks_sarif(checks, installed_version()), indent=2)
    else:
        for each in checks:
            show_check(terminal, each)
    levels = list(Level)
    failing = levels[: levels.index(fail_on) + 1]
    if any(each.count(level) for each in checks for level in failing):
        raise typer.Exit(EXIT_PARTLY)
