"""A graph, two MCP servers and a workflow on one file; the whole form is `python -m tools.hosts.together`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]


def test_programs_lose_nothing_and_see_each_other() -> None:
    command = [sys.executable, "-m", "tools.hosts.together", "--writes", "10"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 problems" in done.stdout
