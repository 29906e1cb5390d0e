"""The elements of a document's lists: where they stand, and the names that they declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from devmem.config.document import Path
from devmem.config.layout import Part
from devmem.config.placeholders import Placeholders
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.wording import found, quoted

Elements: TypeAlias = Sequence[tuple[Path, Any]]
"""The elements of a list, each with its path."""


def elements_of(
    report: Report, placeholders: Placeholders, part: Part | None, *, single: type | None = None
) -> Elements:
    """Return the elements of a list with their paths; one value of the type `single` may stand for a list of it."""
    if part is None or part.value is None:
        return []
    value = placeholders.expand(part.value, part.path) if isinstance(part.value, str) else part.value
    if single is not None and isinstance(value, single):
        return [(part.path, value)]
    if isinstance(value, list):
        return [((*part.path, index), element) for index, element in enumerate(value)]
    report.error(part.path, f"expected a list, found {found(value)}")
    return []


def note_name(report: Report, known: dict[str, Path], name: object, path: Path, what: str) -> None:
    """Record where a name is declared; a second declaration is an error."""
    if not isinstance(name, str):
        return
    if name in known:
        line = report.document.line(known[name])
        message = f"the {what} {quoted(name)} is taken already, on line {line}; names must be unique"
        report.error(path, message, Rule.DUPLICATE_NAME)
    else:
        known[name] = path
