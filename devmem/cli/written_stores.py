"""Opening the stores that the runs of a workflow write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from devmem.cli.failures import CommandError
from devmem.cli.indexing import load_with_progress
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import announce, make, why_empty
from devmem.config import Workflow
from devmem.runtime import DEFAULT_SESSION, open_stores, stores_of_runs
from devmem.stores import MemoryBase


@contextmanager
def opened_written(
    terminal: Terminal, workflow: Workflow, session: str = DEFAULT_SESSION
) -> Iterator[Mapping[str, MemoryBase]]:
    """Open the stores that a workflow's agents wrote, for a `with` block, after printing the workflow's warnings.

    Raises:
        CommandError: nothing was ever written to any of them.
        DevmemError: a store cannot be used.
    """
    announce(terminal, workflow)
    reasons = {name: why_empty(make(workflow, name, session)) for name in stores_of_runs(workflow)}
    written = [name for name, reason in reasons.items() if reason is None]
    if not written:
        told = "; ".join(reason for reason in reasons.values() if reason is not None)
        raise CommandError(f"{told or 'no agent of the workflow writes a store'}.")
    load = partial(load_with_progress, terminal)
    with open_stores(workflow, written, session=session, load=load) as stores:
        yield stores
