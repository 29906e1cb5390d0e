"""`devmem reindex`: embed every item again, or search the items by other fields."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from devmem.cli.describe import items_text
from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.item_options import checked_fields
from devmem.cli.overrides import with_fields
from devmem.cli.places import MemoryPlace, OptionalStore, Place, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, make, why_empty
from devmem.config import Workflow
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import CollectionConfig, CollectionMemory


def reindex(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    session: Session = DEFAULT_SESSION,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Field of the metadata to search from now on, of a file. Repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also embed what this model embedded before.")] = False,
) -> None:
    """Embed every item again with another model, or search items by other fields.

    It takes the model that the workflow names now, and is needed after that was changed, because vectors of different
    models cannot be compared; likewise the fields under `index`. Until an item has its new embedding it is found by its
    words. An interrupted run continues when it is run again.

    Examples:
        devmem reindex configs/demo/team.yaml notes --session demo
        devmem reindex notes.db --field title
    """
    terminal: Terminal = ctx.obj
    place = find_place(terminal, memory, store)
    kept = make(_with_fields(place, checked_fields(field)), place.store, session)
    config = kept.setup.config
    if not isinstance(kept, CollectionMemory) or not isinstance(config, CollectionConfig) or not _has_work(config):
        raise CommandError(f"memory store {place.store!r} has no `embedding:`, so there is nothing to embed.")
    if (reason := why_empty(kept)) is not None:
        raise CommandError(f"{reason}; there is nothing to embed.")
    total = _count(kept)
    try:
        with terminal.progress(f"embedding {place.store}", total) as bar:
            done = kept.reindex(lambda so_far: bar.update(bar.task_ids[0], completed=so_far), force=force)
        info = kept.info()
    finally:
        kept.close()
    made = f"{done:,} of {items_text(info.items)} embedded by {info.embedding}"
    terminal.print(f"{place.store}: {made if config.embedding else f'{items_text(info.items)}, without embeddings'}")
    if info.waiting:
        terminal.report("error", f"{info.waiting:,} items still wait: the provider stopped answering. Run it again.")
        raise typer.Exit(EXIT_PARTLY)


def _with_fields(place: Place, fields: tuple[str, ...] | None) -> Workflow:
    if fields is None:
        return place.workflow
    if place.workflow.file is not None:
        raise CommandError(f"--field is for a file; put `index: {{fields: [...]}}` into {place.workflow.file}.")
    return with_fields(place.workflow, place.store, fields)


def _has_work(config: CollectionConfig) -> bool:
    return config.embedding is not None or config.index.fields is not None


def _count(memory: CollectionMemory) -> int:
    """Count the items without asking for the model that made their embeddings."""
    with closing(memory.open_collection(claim=False)) as collection:
        return collection.info().items
