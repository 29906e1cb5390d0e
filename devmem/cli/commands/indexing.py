"""`devmem reindex`: brings what a store searches up to date: its files, or the embeddings and fields of its items."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from devmem.cli.declaring import option
from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.options import checked_fields
from devmem.cli.targets import (
    EmbeddingName,
    JsonTerminal,
    MemoryPlace,
    OptionalStore,
    Session,
    StoreAddress,
    every_store,
    find_store,
    index_with_progress,
    plan_text,
    report_text,
)
from devmem.cli.terminal import Terminal
from devmem.config.store import IndexConfig
from devmem.errors import CommandError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.results import refused_embeddings
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.config import CollectionConfig
from devmem.stores.indexing import Indexing, IndexPlan, IndexReport
from devmem.stores.memory import MemoryBase
from devmem.text.display import number_of
from devmem.workflow.stores import location_of


def reindex(
    terminal: JsonTerminal,
    memory: MemoryPlace,
    store: OptionalStore = None,
    field: Annotated[
        list[str] | None, option("Metadata field to search from now on, for a file. Repeatable.", metavar="PATH")
    ] = None,
    embedding: EmbeddingName = None,
    force: Annotated[bool, option("Also read files again, or embed items, that nothing has changed for.")] = False,
    drop_missing: Annotated[bool, option("Drop the files of a source that is missing or empty, too.")] = False,
    dry_run: Annotated[bool, option("List changes of files and write nothing.")] = False,
    watch: Annotated[bool, option("Follow changes of files until interrupted.")] = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Bring files, embeddings and searched fields up to date.

    In a store of files, only new, changed and deleted files are processed. A file that cannot be indexed is reported,
    and the exit code is 1. So is a source that is missing or has no file any more, such as a disk that is not mounted:
    its files stay in the index unless --drop-missing is given. Without STORE, every store of files of the workflow is
    brought up to date.

    In any other store, every item is embedded with the model that the workflow or `--embedding` names now. This is
    needed after the model was changed, because vectors of different models cannot be compared; likewise after a change
    of the fields under `index`. Until an item has its new embedding it is found by its words.

    An interrupted run continues when it is run again.

    Examples:
        devmem reindex configs/documents.yaml docs
        devmem reindex configs/demo/team.yaml notes --session demo
        devmem reindex notes.db --field title
        devmem reindex notes.db --embedding e5
    """
    if watch and (terminal.as_json or dry_run):
        raise CommandError("--watch runs until it is interrupted and cannot be combined with --json or --dry-run.")
    every = every_store(terminal, memory, store, session)
    if len(every) > 1:
        every = [address for address in every if isinstance(address.make(), Indexing)]
        if not every:
            raise CommandError(f"{memory}: no store in this workflow is made from files; name another STORE.")
    made = [address.make() for address in every]
    if isinstance(made[0], Indexing):
        if field is not None or embedding is not None:
            raise CommandError(
                f"--field and --embedding cannot be used for {made[0].name!r}, which is made from files."
            )
        _index_files(terminal, made, force=force, drop_missing=drop_missing, dry_run=dry_run, watch=watch)
    elif drop_missing or dry_run or watch:
        raise CommandError(
            f"memory store {made[0].name!r} is of type {made[0].setup.store_type!r}, which is not made from files: "
            "--drop-missing, --dry-run and --watch cannot be used."
        )
    else:
        place = find_store(terminal, memory, [store] if store else [], session, embedding=embedding)
        _embed_items(terminal, place, checked_fields(field), force=force)


def _index_files(
    terminal: Terminal,
    stores: list[MemoryBase],
    *,
    force: bool,
    drop_missing: bool,
    dry_run: bool,
    watch: bool,
) -> None:
    """Bring stores of files up to date, or list what would change."""
    done: dict[str, IndexPlan] = {}
    try:
        for memory in stores:
            assert isinstance(memory, Indexing)  # noqa: S101 - the caller has chosen them so
            if dry_run:
                plan = done[memory.name] = memory.plan(rebuild=force, drop_missing=drop_missing)
                lines = [*_changes(plan), f"{memory.name}: {plan_text(plan)}; nothing was written"]
                told = [("note", reason) for reason in plan.reasons]
                told += [("error", f"{name}: {problem}") for name, problem in plan.problems.items()]
                for level, text in told:
                    terminal.report(level, f"{memory.name}: {text}")
            else:
                report = index_with_progress(terminal, memory.name, memory, rebuild=force, drop_missing=drop_missing)
                done[memory.name], lines = report, [f"{memory.name}: {report_text(report)}"]
                if location_of(memory) is None:
                    terminal.report("note", f"{memory.name} has no `index_path`, so its index ends with this command")
            if not terminal.as_json:
                terminal.print("\n".join(lines))
        if terminal.as_json:
            terminal.json([{"store": name, **asdict(plan)} for name, plan in done.items()])
        if watch:
            _watch(terminal, stores)
    finally:
        for memory in stores:
            memory.close()
    if any(plan.problems for plan in done.values()):
        raise typer.Exit(EXIT_PARTLY)


def _watch(terminal: Terminal, stores: list[MemoryBase]) -> None:
    for memory in stores:
        assert isinstance(memory, Indexing)  # noqa: S101 - see `_index_files`

        def tell(report: IndexReport, name: str = memory.name) -> None:
            terminal.print("\n".join([*_changes(report), f"{name}: {report_text(report)}"]))

        memory.watch(tell)
    terminal.report("note", "following changes; Ctrl-C ends it")
    threading.Event().wait()


def _changes(plan: IndexPlan) -> Iterator[str]:
    for names, sign in ((plan.new, "+"), (plan.changed, "~"), (plan.deleted, "-")):
        yield from (f"{sign} {name}" for name in names)
    yield from (f"> {old} -> {new}" for old, new in plan.renamed)


def _embed_items(terminal: Terminal, place: StoreAddress, fields: tuple[str, ...] | None, *, force: bool) -> None:
    """Embed the items of a store, and print how many; end the command with `EXIT_PARTLY` where some still wait."""
    place = place if fields is None else _with_fields(place, fields)
    kept = place.make()
    config = kept.setup.config
    has_work = isinstance(config, CollectionConfig) and (config.embedding or config.index.fields) is not None
    if not isinstance(kept, CollectionMemory) or not has_work:
        raise CommandError(f"memory store {place.store!r} has no `embedding:`, so there is nothing to embed.")
    place.check_written("; there is nothing to embed")
    with closing(kept):
        # The items are counted without asking for the model that made their embeddings.
        with closing(kept.open_collection(claim=False)) as collection:
            count = collection.info().items
        with terminal.progress(f"embedding {place.store}", count) as bar:
            done = kept.reindex(lambda so_far: bar.update(bar.task_ids[0], completed=so_far), force=force)
        info, refused = kept.info(), kept.collection.refusals()
    items = number_of(info.items, "item")
    made = f"{done:,} of {items} embedded by {info.embedding}" if info.embedding else f"{items}, without embeddings"
    answer: dict[str, Any] = {"store": place.store, "embedded": done, "items": info.items, "waiting": info.waiting}
    answer |= {"refused": refused, "model": info.embedding}
    terminal.answer(answer, f"{place.store}: {made}")
    for finding in refused_embeddings(refused):
        terminal.report("error", f"{place.store}: {finding.message}")
    if waiting := info.waiting - len(refused):
        terminal.report(
            "error", f"{waiting:,} items still wait because the provider stopped answering; run the command again."
        )
    if info.waiting:
        raise typer.Exit(EXIT_PARTLY)


def _with_fields(place: StoreAddress, fields: tuple[str, ...]) -> StoreAddress:
    """Return the address of the store of a file with other indexed fields."""
    if place.workflow.file is not None:
        raise CommandError(f"--field is for a file; put `index: {{fields: [...]}}` into {place.workflow.file}.")
    (store,) = place.workflow.memory
    index = getattr(store.config, "index", None)
    if not isinstance(index, IndexConfig):
        raise CommandError(f"memory store {store.name!r} has no `index:`, so none of its fields can be searched.")
    config = store.config.model_copy(update={"index": index.model_copy(update={"fields": fields})})
    changed = store.model_copy(update={"config": config})
    return replace(place, workflow=place.workflow.model_copy(update={"memory": (changed,)}))
