"""The budget of code lines: what counts, and what is named."""

from __future__ import annotations

import tomllib

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


def test_a_room_over_its_budget_and_a_file_without_a_room_are_named() -> None:
    rooms = {"text": budget.Room(of=["devmem/text"], lines=1)}
    found = budget.measured(rooms)
    over, homeless = sorted(budget.problems(rooms, found), key=lambda said: said.startswith("files"))
    assert over == f"text: {found['text']:,} lines of code, budget 1"
    assert "are in no room" in homeless


@pytest.mark.sources
def test_every_room_is_within_its_budget() -> None:
    rooms = tomllib.loads((budget.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["devmem"]["budget"]
    assert list(budget.problems(rooms, budget.measured(rooms))) == []
