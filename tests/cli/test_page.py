"""`docs/cli.md` lists every command, and names no option that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

from .conftest import COMMANDS, options_of

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
_BEFORE_A_COMMAND = {"--help", "--debug", "--verbose", "--key-file"}


def test_every_command_is_listed() -> None:
    head, _, _ = PAGE.partition("\n## ")
    listed = "".join(re.findall(r"^\* \*\*.*$", head, re.MULTILINE))
    assert sorted(re.findall(r"`([\w-]+)`", listed)) == sorted(COMMANDS)


def test_every_option_exists() -> None:
    known = set().union(_BEFORE_A_COMMAND, *map(options_of, COMMANDS))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - known == set()
