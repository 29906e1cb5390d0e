"""Python: a section for each definition; a class is split into its head and its methods."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from devmem_stores.file.chunks import Section, lines_of, section_of
from devmem_stores.file.formats import code

_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sections(text: str) -> list[Section]:
    """Split at the definitions; a text that is no Python of this version is split as other code is."""
    try:
        with warnings.catch_warnings():
            # Warnings of the parser about other people's backslashes are not for this log.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code.sections(text)
    lines = lines_of(text)
    return [part for part in _split(lines, tree.body, 0, len(lines), "") if part.text.strip()]


def _split(lines: Sequence[str], body: Sequence[ast.stmt], start: int, end: int, outer: str) -> Iterator[Section]:
    """Split the lines from `start` up to `end` (0-based) at the definitions among the statements."""
    at = start
    for statement in body:
        if not isinstance(statement, _Definition):
            continue
        begin = _begin(lines, statement, at)
        if at < begin:
            yield section_of(lines, at, begin, symbol=outer or None)
        stop = min(statement.end_lineno or begin + 1, end)
        name = f"{outer}.{statement.name}" if outer else statement.name
        if isinstance(statement, ast.ClassDef):
            yield from _split(lines, statement.body, begin, stop, name)
        else:
            yield section_of(lines, begin, stop, symbol=name)
        at = max(at, stop)
    if at < end:
        yield section_of(lines, at, end, symbol=outer or None)


def _begin(lines: Sequence[str], definition: _Definition, least: int) -> int:
    """Return the 0-based line where a definition begins, its decorators and the comment above it included."""
    line = min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)]) - 1
    while line > least and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return max(line, least)
