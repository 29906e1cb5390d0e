"""`devmem reindex`: embed every item again."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, StoreName, WorkflowFile, load, location_of, make, why_empty
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import CollectionConfig, CollectionMemory, MemoryBase, PlaceConfig


def reindex(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    session: Session = DEFAULT_SESSION,
    force: Annotated[bool, typer.Option("--force", help="Also embed what this model embedded before.")] = False,
) -> None:
    """Embed every item again with another model.

    It takes the model that the workflow names now, and is needed after that was changed, because vectors of different
    models cannot be compared. Until an item has its new embedding it is found by its words. An interrupted run
    continues when it is run again.

    Examples:
        devmem reindex configs/demo/team.yaml notes --session demo
    """
    terminal: Terminal = ctx.obj
    workflow = load(terminal, file)
    memory = make(workflow, store, session)
    config = memory.setup.config
    if not isinstance(memory, CollectionMemory) or not isinstance(config, CollectionConfig) or not config.embedding:
        raise CommandError(f"memory store {store!r} has no `embedding:`, so there is nothing to embed.")
    if (reason := why_empty(memory)) is not None:
        raise CommandError(f"{reason}; there is nothing to embed.")
    total = _count(memory)
    try:
        with terminal.progress(f"embedding {store}", total) as bar:
            done = memory.reindex(lambda so_far: bar.update(bar.task_ids[0], completed=so_far), force=force)
        info = memory.info()
    finally:
        memory.close()
    terminal.print(f"{store}: {done:,} of {info.items:,} items embedded by {info.embedding}")
    if info.waiting:
        terminal.report("error", f"{info.waiting:,} items still wait: the provider stopped answering. Run it again.")
        raise typer.Exit(EXIT_PARTLY)


def _count(memory: MemoryBase) -> int:
    """Count the items without asking for the model that made their embeddings."""
    from devmem.collections import open_collection

    place = memory.setup.config_as(PlaceConfig)
    collection = open_collection(location_of(memory), durability=place.durability)
    try:
        return collection.info().items
    finally:
        collection.close()
