"""The examples of the pages of hosts, run as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_PAGES = Path(__file__).resolve().parents[2] / "docs/adapters"


def run_example(name: str, folder: Path) -> str:
    """Return what the Python example of a page prints, in an empty folder."""
    page = (_PAGES / f"{name}.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```text\n((?:import|from) .*?)^```$", page, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
