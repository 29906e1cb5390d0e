"""A document's `vars`, and the variables that nothing sets."""

from __future__ import annotations

from typing import Any

from devmem.config.document import path_text
from devmem.config.layout import Part
from devmem.config.placeholders import Placeholders, Unresolved
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.wording import found
from devmem.config.workflow import unset_message


def read_variables(report: Report, part: Part | None) -> dict[str, Any]:
    """Return the values by name; problems are reported."""
    if part is None or part.value is None:
        return {}
    if not isinstance(part.value, dict):
        report.error(part.path, f"expected a mapping, found {found(part.value, secret=True)}")
        return {}
    for key in part.value:
        if not isinstance(key, str):
            report.error((*part.path, key), f"the name of a variable must be text, found {found(key)}")
    return {key: value for key, value in part.value.items() if isinstance(key, str)}


def unresolved_in(report: Report, placeholders: Placeholders) -> tuple[Unresolved, ...]:
    """Return the values that wait for a variable which nothing sets, and warn about each."""
    unresolved = []
    for path, names in placeholders.missing.items():
        if not report.has_error_at(path):
            report.warn(path, unset_message(names), Rule.UNSET_VARIABLE)
        line = report.document.line(path)
        unresolved.append(Unresolved(path=path_text(path), location=path, line=line, names=names))
    return tuple(unresolved)
