"""The budget of code lines: what counts, and what is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import budget

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
