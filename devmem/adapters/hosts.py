"""The frameworks that adapters are for, each an optional package."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec

from devmem import Memory, acting_as
from devmem.errors import MissingExtraError


def require(module: str, *, package: str, extra: str) -> None:
    """Make sure that an adapter's framework is installed, before the adapter imports it.

    Args:
        module: a module of the framework, such as `mcp` or `langgraph.store.base`.
        package: name of the framework's distribution.
        extra: extra of devmem that installs it.

    Raises:
        MissingExtraError: it is not installed; the error names the command that installs it.
    """
    try:
        found = find_spec(module)
    except ModuleNotFoundError:
        # A package above it is not there.
        found = None
    if found is None:
        raise MissingExtraError(feature=f"devmem's adapter for {package}", package=package, extra=extra)


def writing(host: str, memory: Memory) -> AbstractContextManager[None]:
    """Have changes in the block recorded as those of the agent whose handle it is, or else of the host.

    Whoever is named around the block goes before: a workflow's node, a command, `devmem.acting_as`.
    """
    return acting_as(memory.new_scope().agent or host, by_default=True)
