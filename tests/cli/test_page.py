"""`docs/cli.md` speaks of every command and option, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import COMMANDS, options_of

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = {
    title.strip(): body for title, body in re.findall(r"^## devmem ([\w-]+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
}


def test_every_command_has_its_section() -> None:
    assert SECTIONS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_has_the_command_s_options(name: str) -> None:
    told = set(re.findall(r"`(--[a-z-]+)`", "".join(re.findall(r"^\| `--.*?\|", SECTIONS[name], re.M))))
    assert told == {option for option in options_of(name) if option.startswith("--")}
