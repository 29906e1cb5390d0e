"""Checking a workflow with the store types that are installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devmem.config import WorkflowCheck, checking
from devmem.registry import StoreRegistry, registry

__all__ = ["WorkflowCheck", "check_workflow"]


def check_workflow(
    path: str | Path, *, types: StoreRegistry = registry, environ: Mapping[str, str] | None = None
) -> WorkflowCheck:
    """Check a workflow file, ours or DevAll's: findings instead of errors, and a closer look than loading it takes.

    Args:
        path: the YAML file.
        types: where store types are looked up.
        environ: values for placeholders; None takes the process's environment.
    """
    return checking.check_workflow(path, types, environ=environ)
