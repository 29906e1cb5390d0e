"""The command line in this process."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from typer.testing import CliRunner, Result

# The application itself: a process for each command would take half a second.
from devmem.cli.app import app as app


def run_devmem(
    *arguments: object,
    code: int | None = 0,
    stdin: str | bytes | None = None,
    env: dict[str, str | None] | None = None,
) -> Result:
    """Run a command, and compare its exit code; None takes any."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, env=env)
    assert code in (None, result.exit_code), result.output
    return result


def recalls(workflow: Path, *options: object) -> list[Any]:
    """Return the steps in which agents of a workflow were shown something, oldest first."""
    text = run_devmem("log", workflow, "--shown", "--limit", 1000, "--json", *options).stdout
    steps: list[Any] = json.loads(text, object_hook=lambda fields: SimpleNamespace(**fields))
    return sorted(steps, key=lambda step: step.id)
