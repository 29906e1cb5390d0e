"""`devmem runs` and `history`: what changed in a memory, and undoing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated

from devmem.cli.declaring import option
from devmem.cli.inputs import full_id, full_run, short_run
from devmem.cli.targets import (
    JsonTerminal,
    MemoryPlace,
    OptionalStore,
    Session,
    StoreAddress,
    Target,
    every_store,
    load_with_progress,
    period_of_options,
)
from devmem.cli.terminal import Terminal, date_text, zoned
from devmem.errors import CommandError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.versions import Change, RunInfo, with_replaced
from devmem.server.requests import StoredMemory
from devmem.stores.abilities import keeps_versions, versions_of
from devmem.stores.memory import MemoryBase
from devmem.text.display import number_of
from devmem.workflow.stores import load_store, open_stores, session_folder
from devmem.workflow.transaction import commit_run, discard_run, revert_run, stores_of_runs

_COLUMNS = ("run", "state", "started", "ended", "changes", "by")


def runs(
    terminal: JsonTerminal,
    memory: MemoryPlace,
    store: OptionalStore = None,
    commit: Annotated[str | None, option("Commit this pending run.", metavar="RUN")] = None,
    discard: Annotated[str | None, option("Discard this pending run.", metavar="RUN")] = None,
    revert: Annotated[str | None, option("Undo this committed run.", metavar="RUN")] = None,
    limit: Annotated[int, option("Number of the newest runs.", "--limit", "-n", metavar="N", min=1)] = 20,
    session: Session = DEFAULT_SESSION,
) -> None:
    """List the runs of a memory, end those that are pending, or undo one.

    A run is `pending` until it ends, even if its process has died: no other process sees what it wrote. `--commit` and
    `--discard` end such a run, after which its state is shown. A run that is not a transaction is `committed` from its
    first change on.

    `--revert` deletes what a run added, and restores what it replaced or deleted. If later versions build on what it
    wrote, they are named, and nothing is changed. For a workflow without a store, all stores that its agents write to
    are meant, and a run is undone in all of them or in none.

    Examples:
        devmem runs team.yaml
        devmem runs notes.db --discard 5f2c
        devmem runs team.yaml --revert 5f2c
    """
    if sum(each is not None for each in (commit, discard, revert)) > 1:
        raise CommandError("give one of --commit, --discard and --revert.")
    given, every = commit or discard or revert, every_store(terminal, memory, store, session)
    workflow, folder = every[0].workflow, session_folder(every[0].workflow, session)
    found: list[tuple[str, RunInfo]]
    with _opened(terminal, every, looking=given is None) as stores:
        run = None if given is None else full_run(stores.values(), given)
        if len(every) == 1:
            versions = versions_of(stores[every[0].store])
            end = versions.commit if commit else versions.discard if discard else versions.revert
            found = [(every[0].store, info) for info in (versions.runs(limit) if run is None else [end(run)])]
        elif revert is not None:
            found = list(revert_run(workflow, stores, run or revert, folder).items())
        else:
            if run is not None:
                (commit_run if commit else discard_run)(workflow, stores, run, folder)
            kept = {name: versions_of(each) for name, each in stores.items() if keeps_versions(each)}
            found = [
                (name, info)
                for name, versions in kept.items()
                for info in (versions.runs(limit) if run is None else [versions.find_run(run)])
                if info is not None
            ]
            found = sorted(found, key=lambda each: -each[1].started_at)[:limit]
    if revert is not None and not terminal.as_json:
        for name, info in found:
            terminal.print(f"{name}: {number_of(info.changes, 'item')} changed back, as run {info.run!r}")
    else:
        rows = [
            (short_run(info.run), info.state.value, date_text(info.started_at), date_text(info.ended_at),
             str(info.changes), info.actor or "", name)
            for name, info in found
        ]  # fmt: skip
        forms = [{"store": name, **asdict(info)} for name, info in found]
        terminal.rows(forms, (*zoned(_COLUMNS), "store"), rows, numbers=("changes",))


@contextmanager
def _opened(terminal: Terminal, every: Sequence[StoreAddress], *, looking: bool) -> Iterator[Mapping[str, MemoryBase]]:
    """Open a store, or of several those that the workflow's agents wrote, for a `with` block.

    With `looking`, nothing is indexed or embedded.

    Raises:
        CommandError: nothing was ever written to any of them.
        DevmemError: a store cannot be used.
    """
    if len(every) == 1:
        with every[0].opened_existing(looking=looking) as store:
            yield {every[0].store: store}
        return
    workflow, session = every[0].workflow, every[0].session
    wanted = stores_of_runs(workflow)
    reasons = {each.store: each.why_empty() for each in every if each.store in wanted}
    written = [name for name, reason in reasons.items() if reason is None]
    if not written:
        told = "; ".join(reason for reason in reasons.values() if reason is not None)
        raise CommandError(f"{told or 'no agent of the workflow writes a store'}.")
    load = partial(load_store, looking=True) if looking else partial(load_with_progress, terminal)
    with open_stores(workflow, written, session=session, load=load) as stores:
        yield stores


def history(
    terminal: JsonTerminal,
    place: Annotated[StoreAddress, Target(words="[ID]", about="Id of one item.", most=1, reading=True)],
    since: Annotated[str | None, option("What changed from this time on.", "--from", metavar="TIME")] = None,
    until: Annotated[str | None, option("The later time; now by default.", "--to", metavar="TIME")] = None,
    run: Annotated[str | None, option("What this run changed, or is about to.", metavar="RUN")] = None,
) -> None:
    """Show the versions of an item, or what changed between two times or in a run.

    A version is shown with what created it, when, and in which run. Versions are kept for as long as the store's
    `history` says, 30 days by default. Forgotten items have none.

    Examples:
        devmem history notes.db 5f2c
        devmem history notes.db --from 2026-06-01 --to 2026-06-02T14:30
        devmem history team.yaml notes --run 5f2c
    """
    if (bool(place.words), since is not None, run is not None).count(True) != 1 or (until and since is None):
        raise CommandError("give the ID of an item, --from (optionally with --to), or --run.")
    with place.opened_existing(looking=True) as store:
        versions = versions_of(store)
        if place.words:
            _show_versions(terminal, store, place.words[0])
            return
        if since is not None:
            found = versions.diff(*period_of_options(since, until))
        else:
            found = versions.diff(full_run([store], run or ""))
    forms = [
        {
            "id": each.item_id,
            "operation": each.operation,
            "before": each.before and StoredMemory.of(each.before),
            "after": each.after and StoredMemory.of(each.after),
        }
        for each in found
    ]
    texts = [["" if item is None else item.content_summary for item in (each.before, each.after)] for each in found]
    rows = [(each.operation.value, each.item_id, *pair) for each, pair in zip(found, texts, strict=True)]
    terminal.rows(forms, ("change", "id", "before", "after"), rows)


def _show_versions(terminal: Terminal, store: MemoryBase, item_id: str) -> None:
    """Print a row for each version of an item, and one for the deletion that ended the last of them, if any did."""
    versions = versions_of(store).history(full_id(store, item_id))
    if not versions:
        raise CommandError(f"memory store {store.name!r} has no version of an item {item_id!r}.")
    if terminal.as_json:
        terminal.json(
            [
                {"item": StoredMemory.of(one.item), "replaced": one.replaced, "began": one.began, "ended": one.ended}
                for one in with_replaced(versions)
            ]
        )
        return
    changes: list[tuple[Change, str]] = [(one.began, one.item.content_summary) for one in versions]
    if (ended := versions[-1].ended) is not None:
        changes.append((ended, ""))
    rows = [
        (date_text(one.at), one.operation.value, short_run(one.run or ""), one.actor or "", text)
        for one, text in changes
    ]
    terminal.table(zoned(("recorded", "change", "run", "by", "text")), rows)
