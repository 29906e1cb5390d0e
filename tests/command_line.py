"""The command line in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

# The application itself: a process for each command would take half a second.
from devmem.cli.app import app


def run_devmem(*arguments: object, code: int = 0, stdin: str | bytes | None = None) -> Result:
    """Run a command, and compare its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result
