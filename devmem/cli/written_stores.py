"""Opening the stores that the runs of a workflow write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from devmem.cli.indexing import load_with_progress
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import announce, check_session
from devmem.config import Workflow
from devmem.runtime import DEFAULT_SESSION, open_stores, stores_of_runs
from devmem.stores import MemoryBase


@contextmanager
def opened_written(
    terminal: Terminal, workflow: Workflow, session: str = DEFAULT_SESSION
) -> Iterator[Mapping[str, MemoryBase]]:
    """Open the stores that a workflow's agents write, for a `with` block, after printing the workflow's warnings.

    Raises:
        DevmemError: a store cannot be used.
    """
    announce(terminal, workflow)
    check_session(workflow, session)
    load = partial(load_with_progress, terminal)
    with open_stores(workflow, stores_of_runs(workflow), session=session, load=load) as stores:
        yield stores
