"""A graph, two MCP servers and a workflow on one file; the whole form is `python -m tools.hosts.together`."""

from __future__ import annotations

from typer.testing import CliRunner

from tools.hosts.together import app


def test_programs_lose_nothing_and_see_each_other() -> None:
    result = CliRunner().invoke(app, ["--writes", "10"])
    assert result.exit_code == 0, result.output
    assert "0 problems" in result.output
