"""Loading a workflow with the store types that are installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devmem import config
from devmem.config import Workflow
from devmem.registry import StoreRegistry, registry


def load_workflow(
    path: str | Path, *, types: StoreRegistry = registry, environ: Mapping[str, str] | None = None
) -> Workflow:
    """Read and check a workflow file, ours or DevAll's.

    Args:
        path: the YAML file.
        types: where store types are looked up.
        environ: values for placeholders; None takes the process's environment.

    Raises:
        ConfigError: with everything that is wrong with the file.
    """
    return config.load_workflow(path, types, environ=environ)
