"""`devmem runs` and `history`: what changed in a memory, and undoing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from devmem.cli.inputs import full_id, full_run, short_run
from devmem.cli.targets import (
    AsJson,
    MemoryPlace,
    OptionalStore,
    Session,
    StoreAddress,
    announce,
    find_store,
    load_with_progress,
    make,
    opened_existing,
    period_of_options,
    several_stores,
    split_words,
    why_empty,
)
from devmem.cli.terminal import Terminal, date_text, zoned
from devmem.config.workflow import Workflow
from devmem.errors import CommandError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.versions import Change, ItemVersion, RunInfo
from devmem.storage.versions import VersionedCollection
from devmem.stores.abilities import keeps_versions, versions_of
from devmem.stores.memory import MemoryBase
from devmem.text.display import number_of
from devmem.workflow.stores import load_store, open_stores, session_folder
from devmem.workflow.transaction import commit_run, discard_run, revert_run, stores_of_runs

_COLUMNS = ("run", "state", "started", "ended", "changes", "by")


def runs(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    commit: Annotated[str | None, typer.Option(metavar="RUN", help="Commit this pending run.")] = None,
    discard: Annotated[str | None, typer.Option(metavar="RUN", help="Discard this pending run.")] = None,
    revert: Annotated[str | None, typer.Option(metavar="RUN", help="Undo this committed run.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest runs.")] = 20,
    as_json: AsJson = False,
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
    terminal: Terminal = ctx.obj
    if sum(each is not None for each in (commit, discard, revert)) > 1:
        raise CommandError("give one of --commit, --discard and --revert.")
    if revert is not None:
        _revert(terminal, memory, store, session, revert, as_json=as_json)
        return
    looking = commit is None and discard is None
    if store is None and (workflow := several_stores(memory, (), after=0)) is not None:
        with _opened_written(terminal, workflow, session, looking=looking) as stores:
            commit, discard = (run and full_run(stores.values(), run) for run in (commit, discard))
            _end(workflow, stores, session, commit, discard)
            every = [(name, info) for name, each in stores.items() for info in _found(each, commit or discard, limit)]
        _show_of_workflow(terminal, sorted(every, key=lambda each: -each[1].started_at)[:limit], as_json=as_json)
        return
    place = find_store(terminal, memory, store, session)
    with opened_existing(terminal, place, looking=looking) as source:
        commit, discard = (run and full_run([source], run) for run in (commit, discard))
        found = _runs(versions_of(source), commit, discard, limit)
    if as_json:
        terminal.json([asdict(info) for info in found])
    else:
        terminal.table(zoned(_COLUMNS), [_row(info) for info in found], numbers=("changes",))


def _end(
    workflow: Workflow, stores: Mapping[str, MemoryBase], session: str, commit: str | None, discard: str | None
) -> None:
    """End a pending run in all stores of a workflow, if one is named."""
    folder = session_folder(workflow, session)
    if commit is not None:
        commit_run(workflow, stores, commit, folder)
    elif discard is not None:
        discard_run(workflow, stores, discard, folder)


def _found(store: MemoryBase, run: str | None, limit: int) -> Sequence[RunInfo]:
    """Return one run of a store, or the newest ones; none of a store that keeps no versions."""
    if not keeps_versions(store):
        return ()
    if run is None:
        return versions_of(store).runs(limit)
    info = versions_of(store).find_run(run)
    return () if info is None else (info,)


def _show_of_workflow(terminal: Terminal, found: Sequence[tuple[str, RunInfo]], *, as_json: bool) -> None:
    if as_json:
        terminal.json([{"store": name, **asdict(info)} for name, info in found])
    else:
        rows = [(*_row(info), name) for name, info in found]
        terminal.table((*zoned(_COLUMNS), "store"), rows, numbers=("changes",))


def _runs(versions: VersionedCollection, commit: str | None, discard: str | None, limit: int) -> Sequence[RunInfo]:
    """Return the run that is ended, or the newest ones."""
    if commit is not None:
        return [versions.commit(commit)]
    return [versions.discard(discard)] if discard is not None else versions.runs(limit)


def _row(info: RunInfo) -> Sequence[str]:
    times = date_text(info.started_at), date_text(info.ended_at)
    return short_run(info.run), info.state.value, *times, str(info.changes), info.actor or ""


def _revert(terminal: Terminal, memory: str, store: str | None, session: str, given: str, *, as_json: bool) -> None:
    """Undo a run, in one store or in all stores of a workflow, and print what was changed back."""
    if store is None and (workflow := several_stores(memory, (), after=0)) is not None:
        with _opened_written(terminal, workflow, session) as stores:
            run = full_run(stores.values(), given)
            undone = revert_run(workflow, stores, run, session_folder(workflow, session))
    else:
        place = find_store(terminal, memory, store, session)
        with opened_existing(terminal, place) as opened:
            undone = {place.store: versions_of(opened).revert(full_run([opened], given))}
    if as_json:
        terminal.json([{"store": name, **asdict(info)} for name, info in undone.items()])
        return
    for name, info in undone.items():
        terminal.print(f"{name}: {number_of(info.changes, 'item')} changed back, as run {info.run!r}")


@contextmanager
def _opened_written(
    terminal: Terminal, workflow: Workflow, session: str = DEFAULT_SESSION, *, looking: bool = False
) -> Iterator[Mapping[str, MemoryBase]]:
    """Open the stores that a workflow's agents wrote, for a `with` block, after printing the workflow's warnings.

    With `looking`, nothing is indexed or embedded.

    Raises:
        CommandError: nothing was ever written to any of them.
        DevmemError: a store cannot be used.
    """
    announce(terminal, workflow)
    reasons = {
        name: why_empty(make(StoreAddress(workflow=workflow, store=name, session=session)))
        for name in stores_of_runs(workflow)
    }
    written = [name for name, reason in reasons.items() if reason is None]
    if not written:
        told = "; ".join(reason for reason in reasons.values() if reason is not None)
        raise CommandError(f"{told or 'no agent of the workflow writes a store'}.")
    load = partial(load_store, looking=True) if looking else partial(load_with_progress, terminal)
    with open_stores(workflow, written, session=session, load=load) as stores:
        yield stores


_HISTORY_COLUMNS = ("recorded", "change", "run", "by", "text")
_CHANGES_COLUMNS = ("change", "id", "before", "after")


def history(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str] | None, typer.Argument(metavar="[STORE] [ID]", help="Id of one item.")] = None,
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="What changed from this time on.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="The later time; now by default.")] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="What this run changed, or is about to.")] = None,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show the versions of an item, or what changed between two times or in a run.

    A version is shown with what created it, when, and in which run. Versions are kept for as long as the store's
    `history` says, 30 days by default. Forgotten items have none.

    Examples:
        devmem history notes.db 5f2c
        devmem history notes.db --from 2026-06-01 --to 2026-06-02T14:30
        devmem history team.yaml notes --run 5f2c
    """
    terminal: Terminal = ctx.obj
    changes = since is not None or run is not None
    if (since is not None and run is not None) or (until is not None and since is None):
        raise CommandError("give either --from, with --to where it is not now, or --run.")
    least = 0 if changes else 1
    usage = "MEMORY [STORE]" if changes else "MEMORY [STORE] ID"
    place = split_words(terminal, memory, words or [], session, least=least, most=least, usage=usage, reading=True)
    with opened_existing(terminal, place, looking=True) as store:
        if changes:
            _show_changes(terminal, store, since, until, run, as_json=as_json)
        else:
            _show_versions(terminal, store, place.words[0], as_json=as_json)


def _show_versions(terminal: Terminal, store: MemoryBase, item_id: str, *, as_json: bool) -> None:
    from devmem.model.versions import with_replaced
    from devmem.stores.abilities import versions_of
    from devmem.views.documents import version_json

    versions = versions_of(store).history(full_id(store, item_id))
    if not versions:
        raise CommandError(f"memory store {store.name!r} has no version of an item {item_id!r}.")
    if as_json:
        terminal.json([version_json(one) for one in with_replaced(versions)])
    else:
        terminal.table(zoned(_HISTORY_COLUMNS), list(_rows(versions)))


def _show_changes(
    terminal: Terminal, store: MemoryBase, since: str | None, until: str | None, run: str | None, *, as_json: bool
) -> None:
    from devmem.stores.abilities import versions_of
    from devmem.views.documents import difference_json

    versions = versions_of(store)
    if run is not None:
        found = versions.diff(full_run([store], run))
    else:
        found = versions.diff(*period_of_options(since or "", until))
    if as_json:
        terminal.json([difference_json(each) for each in found])
        return
    texts = [["" if item is None else item.content_summary for item in (each.before, each.after)] for each in found]
    rows = [(each.operation.value, each.item_id, *pair) for each, pair in zip(found, texts, strict=True)]
    terminal.table(_CHANGES_COLUMNS, rows)


def _rows(versions: Sequence[ItemVersion]) -> Iterator[Sequence[str]]:
    """Yield a row for each version, and one for the deletion that ended the last of them, if any did."""
    for version in versions:
        yield _history_row(version.began, version.item.content_summary)
    if (ended := versions[-1].ended) is not None:
        yield _history_row(ended, "")


def _history_row(change: Change, text: str) -> Sequence[str]:
    return date_text(change.at), change.operation.value, short_run(change.run or ""), change.actor or "", text
