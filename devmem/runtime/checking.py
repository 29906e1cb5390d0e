"""Checking a workflow: whatever can be known without opening, asking or writing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devmem import config
from devmem.config import Workflow
from devmem.errors import ConfigError, Finding, Level
from devmem.registry import StoreRegistry, registry


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCheck:
    """The outcome of checking one workflow."""

    file: str
    """The file as the caller named it."""
    workflow: Workflow | None
    """The workflow; None when it cannot be used."""
    findings: tuple[Finding, ...]
    """Errors, warnings and notes, by line."""

    def count(self, level: Level) -> int:
        """Return the number of findings of a level."""
        return sum(finding.level is level for finding in self.findings)


def check_workflow(
    path: str | Path, *, types: StoreRegistry = registry, environ: Mapping[str, str] | None = None
) -> WorkflowCheck:
    """Check a workflow file, ours or DevAll's.

    Args:
        path: the YAML file.
        types: where store types are looked up.
        environ: values for placeholders; None takes the process's environment.
    """
    try:
        workflow = config.load_workflow(path, types, environ=environ)
    except ConfigError as error:
        return WorkflowCheck(file=str(path), workflow=None, findings=error.findings)
    return WorkflowCheck(file=str(path), workflow=workflow, findings=workflow.warnings)
