"""The short form of the torture kit, and the budget of code lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools import budget
from tools.torture.__main__ import FAULTS, app

ROOT = Path(__file__).parents[2]


def _marked(fault: str) -> object:
    return pytest.param(fault, marks=pytest.mark.postgres) if fault.startswith("postgres") else fault


@pytest.mark.kit
@pytest.mark.parametrize("fault", [_marked(fault) for fault in FAULTS])
def test_the_short_form(fault: str) -> None:
    command = [sys.executable, "-m", "tools.torture", fault, "--short", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_a_class_that_does_not_exist_is_named() -> None:
    done = CliRunner().invoke(app, ["earthquakes"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "there is no class 'earthquakes'" in done.output


SOURCE = '''"""A module."""

import os  # its reason

# A comment.
NAMES = (
    "one",

    "two",
)
"""A docstring of an attribute."""


def first() -> str:
    """Return the first name."""
    return """of
two lines"""
'''


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    assert budget.code_lines(SOURCE) == 1 + 4 + 3


def test_a_room_over_its_budget_and_a_file_without_a_room_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m tools.budget --check`, which the linters run, looks at the rooms of the product."""
    for name in ("text/one.py", "other/two.py"):
        (tmp_path / "devmem" / name).parent.mkdir(parents=True)
        (tmp_path / "devmem" / name).write_text(SOURCE)
    monkeypatch.setattr(budget, "ROOT", tmp_path)
    rooms = {"text": budget.Room(of=["devmem/text"], lines=1)}
    assert list(budget.problems(rooms, budget.measured(rooms))) == [
        "text: 8 lines of code, budget 1",
        "files of 8 lines of code are in no room: name them in [tool.devmem.budget]",
    ]
