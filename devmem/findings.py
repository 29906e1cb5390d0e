"""Findings of a check of a workflow, which `ConfigError` carries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding, in the words of SARIF."""

    ERROR = "error"
    """The workflow cannot be used."""
    WARNING = "warning"
    """The workflow can be used, but probably does not do what its author expects."""
    NOTE = "note"
    """A suggestion, or something worth knowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found while a workflow was checked."""

    message: str
    """Cause, value found and values possible; no location."""
    level: Level = Level.ERROR
    rule: str = ""
    """Identifier of the check, as `unknown-key`; `devmem.config.Rule` describes each."""
    path: str = ""
    """Place in the document, as `memory[1].config.file_sources[0].path`; empty for the whole file."""
    file: str = ""
    """The file as the caller named it; empty when the document did not come from one."""
    line: int | None = None
    """1-based line, or None when the whole file is meant."""

    def __str__(self) -> str:
        place = self.file or "<workflow>"
        if self.line is not None:
            place += f":{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"
