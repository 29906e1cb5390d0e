"""Source code of other languages: a section for every definition at the left edge, or in a type's body."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from devmem_stores.file.chunks import Section, lines_of, section_of

_MODIFIERS: Final = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([^)]*\))?|unsafe|extern"
    r"|inline|const|override|open|sealed|data|virtual|partial|local|declare)\s+)*"
)
_NAMED: Final = re.compile(
    rf"^(?P<indent>[ \t]*){_MODIFIERS}"
    r"(?:function\*?|class|interface|struct|enum|impl(?:<[^>]*>)?|trait|fn|func(?:\s*\([^)]*\))?|fun|def|defp|module|mod"
    r"|namespace|object|type|record|protocol|extension|sub|message|service"
    r"|create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index|trigger))\s+"
    r"(?P<name>[A-Za-z_$][\w$.:]*)",
    re.IGNORECASE,
)
_C_LIKE: Final = re.compile(r"^(?P<indent>)[A-Za-z_][\w\s*&<>:,\[\]]*?(?P<name>[A-Za-z_~][\w:~]*)\s*\([^;]*$")
_SHELL: Final = re.compile(r"^(?P<indent>)(?P<name>[A-Za-z_][\w-]*)\s*\(\)\s*\{?\s*$")
_ARROW: Final = re.compile(r"^(?P<indent>)(?:export\s+)?(?:const|let|var)\s+(?P<name>[\w$]+)\s*=.*(?:=>|function\b)")
_STATEMENT: Final = re.compile(r"^(?:if|for|while|switch|else|return|catch|do|try|case|elif|with|match|when)\b")
_ABOVE: Final = re.compile(r"^\s*(?://|#|/\*|\*|@|--|\[)")
_DEEPEST: Final = 4
"""Blanks before a line that still may begin a definition: a method in a type's body."""


def sections(text: str) -> list[Section]:
    """Split where definitions begin; comments and annotations right above one belong to it."""
    lines = lines_of(text)
    starts = list(_starts(lines))
    bounds = [(0, None), *starts] if not starts or starts[0][0] > 0 else starts
    ends = [start for start, _ in bounds[1:]] + [len(lines)]
    parts = (section_of(lines, start, end, symbol=name) for (start, name), end in zip(bounds, ends, strict=True))
    return [part for part in parts if part.text.strip()]


def _starts(lines: list[str]) -> Iterator[tuple[int, str | None]]:
    outer, least = "", 0
    for at, line in enumerate(lines):
        found = _definition(line)
        if found is None:
            continue
        indent, name = found
        if indent == 0:
            outer = name
        begin = at
        while begin > least and _ABOVE.match(lines[begin - 1]):
            begin -= 1
        yield begin, name if indent == 0 or not outer else f"{outer}.{name}"
        least = at + 1


def _definition(line: str) -> tuple[int, str] | None:
    """Return the indentation of a line and the name that it defines; None when it defines nothing."""
    if len(line) > 400 or _STATEMENT.match(line.lstrip()):
        return None
    for pattern in (_NAMED, _SHELL, _ARROW, _C_LIKE):
        match = pattern.match(line)
        if match:
            indent = len(match["indent"].expandtabs(4))
            return (indent, match["name"]) if indent <= _DEEPEST else None
    return None
