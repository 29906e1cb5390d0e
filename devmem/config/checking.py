"""Checking a workflow file: everything that can be known without opening, asking or writing anything."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from devmem.config.compose import compose
from devmem.config.environment import Environment
from devmem.config.reading import Reader
from devmem.config.source import read_text
from devmem.config.store_types import StoreTypes
from devmem.config.workflow import Workflow
from devmem.errors import ConfigError, Finding, Level


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
    path: str | os.PathLike[str], store_types: StoreTypes, *, environ: Mapping[str, str] | None = None
) -> WorkflowCheck:
    """Check a workflow file, ours or DevAll's, more closely than reading it does.

    `environ` stands in for the process environment.
    """
    file = pathlib.Path(path)
    try:
        document = compose(read_text(file, str(path)), origin=str(path))
        reader = Reader(document, store_types, Environment(environ, folder=file.parent))
        workflow = reader.workflow(file.parent).model_copy(update={"file": file})
    except ConfigError as error:
        return WorkflowCheck(file=str(path), workflow=None, findings=error.findings)
    return WorkflowCheck(file=str(path), workflow=workflow, findings=reader.review(workflow))
