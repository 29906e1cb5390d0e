"""The examples of the pages of hosts, run as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_PAGES = Path(__file__).resolve().parents[2] / "docs/adapters"
_PROGRAM = re.compile(r"^```text\n((?:import|from) .*?)^```$", re.MULTILINE | re.DOTALL)
_OFFLINE = """
import os, runpy, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        os.write(2, f"the program wants a network: {event} {arguments}".encode())
        os._exit(1)

sys.addaudithook(refuse)
runpy.run_path("program.py", run_name="__main__")
"""


def example(name: str) -> str:
    """Return the Python example of a page."""
    (code,) = _PROGRAM.findall((_PAGES / f"{name}.md").read_text(encoding="utf-8"))
    return str(code)


def run_example(name: str, folder: Path) -> str:
    """Return what the Python example of a page prints, in an empty folder."""
    return _printed(["-c", example(name)], folder)


def programs() -> dict[str, str]:
    """Return the programs of the page of hosts without an adapter by the headings that they stand under."""
    sections = re.split(r"^## ", (_PAGES / "programs.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {section.split("\n", 1)[0]: re.findall(r"\]\((programs/\w+\.py)\)", section) for section in sections}
    assert all(len(files) == 1 for files in found.values()), "each section has one program"
    return {title: (_PAGES / file).read_text(encoding="utf-8") for title, (file,) in found.items()}


def run_program(title: str, folder: Path) -> str:
    """Return what a program of that page prints; one that opens a connection fails, whatever its host makes of it."""
    # A file, as a reader has it: smolagents reads the source of a function that becomes a tool.
    (folder / "program.py").write_text(programs()[title], encoding="utf-8")
    return _printed(["-c", _OFFLINE], folder)


def _printed(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
