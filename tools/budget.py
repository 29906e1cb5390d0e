"""The size of each room of the product, beside its budget: `python -m tools.budget [--check]`.

Lines of code are counted: neither blank lines nor comments nor docstrings, so that formatting wins nothing. Rooms and
budgets are in `[tool.devmem.budget]` of `pyproject.toml`.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypedDict

ROOT: Final = Path(__file__).resolve().parents[1]
_BLANK: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


class Room(TypedDict):
    """A room of the product."""

    of: list[str]
    """Its folders and files, from the project's root."""
    lines: int
    """Budget in lines of code."""


def code_lines(source: str) -> int:
    """Return the number of lines with code."""
    strings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for one in tokens if one.type not in _BLANK for line in range(one.start[0], one.end[0] + 1)}
    return len(lines - strings)


def measured(rooms: Mapping[str, Room]) -> dict[str, int]:
    """Return the lines of code of each room; a file of no room counts for the room ''."""
    found = dict.fromkeys(rooms, 0)
    for file in sorted(file for folder in ("devmem", "stores") for file in (ROOT / folder).rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        room = next((room for room, each in rooms.items() if any(_is_in(name, place) for place in each["of"])), "")
        found[room] = found.get(room, 0) + code_lines(file.read_text(encoding="utf-8"))
    return found


def _is_in(name: str, place: str) -> bool:
    return name == place or name.startswith(f"{place}/")


def problems(rooms: Mapping[str, Room], found: Mapping[str, int]) -> Iterator[str]:
    """Yield what is over its budget, and that there are files without a room."""
    for room, lines in found.items():
        if room not in rooms:
            yield f"files of {lines:,} lines of code are in no room: name them in [tool.devmem.budget]"
        elif lines > rooms[room]["lines"]:
            yield f"{room}: {lines:,} lines of code, budget {rooms[room]['lines']:,}"


def main() -> int:
    """Print the table, or with `--check` what is over its budget; return the exit code."""
    rooms: dict[str, Room] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["devmem"]["budget"]
    found = measured(rooms)
    over = list(problems(rooms, found))
    if "--check" not in sys.argv[1:]:
        for room, lines in sorted(found.items(), key=lambda each: -each[1]):
            print(f"{room or 'no room':16}{lines:8,}{rooms[room]['lines'] if room in rooms else 0:8,}")
        print(f"{'all':16}{sum(found.values()):8,}{sum(each['lines'] for each in rooms.values()):8,}")
    print("\n".join(over) if over else f"{len(rooms)} rooms are within their budgets")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
