"""`devmem consolidate`: near-duplicates of a store become one item."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from pydantic import JsonValue

from devmem.cli.ids import short_run
from devmem.cli.targets import (
    AsJson,
    MemoryPlace,
    OptionalStore,
    Session,
    find_store,
    opened_existing,
    seconds_of_option,
)
from devmem.cli.terminal import Terminal, items_text
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.items import MemoryItem
from devmem.stores.consolidation import Consolidation
from devmem.stores.consolidation import consolidate as consolidate_store
from devmem.stores.digests import DIGEST
from devmem.text.display import one_line

_SHORT: Final = 8


def consolidate(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be merged; change nothing.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Metadata key whose values may differ. Repeatable.")
    ] = None,
    digest_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Add digests of conversations that ended before: `30 days ago`.")
    ] = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Merge near-duplicates in one run, which can be reverted.

    Texts of the same user, agent, session and conversation that differ only in case, marks, articles, contractions or
    courtesies become one item, which tells of the others in its metadata. A number, a name, a negation or a word that
    differs makes another statement. Items that are pinned, have a key, or are in quarantine stay unchanged, and so do
    messages, and items that others were derived from. Interrupted, the command continues when it is run again.

    With `--digest-before`, each conversation that ended before gets a digest, whose sentences name their turns; the
    turns stay.

    Examples:
        devmem consolidate notes.db --dry-run
        devmem consolidate team.yaml notes --ignore line
    """
    terminal: Terminal = ctx.obj
    place = find_store(terminal, memory, store, session)
    with (
        opened_existing(terminal, place, looking=dry_run) as opened,
        terminal.progress(f"reading {place.store}", opened.count_memories()) as bar,
    ):
        done = consolidate_store(
            opened,
            ignore=ignore or (),
            digest_before=None if digest_before is None else seconds_of_option("--digest-before", digest_before),
            dry_run=dry_run,
            progress=lambda so_far: bar.update(bar.task_ids[0], completed=so_far),
        )
    if as_json:
        terminal.json({"store": place.store, "dry_run": dry_run, **_as_json(done)})
    else:
        _print(terminal, place.store, done, dry_run=dry_run)


def _as_json(done: Consolidation) -> dict[str, object]:
    merges = [{"kept": each.kept.id, "merged": [item.id for item in each.merged]} for each in done.merges]
    digests = [{"id": item.id, **_digest(item)} for item in done.digests]
    found = {"run": done.run, "items": done.items, "removed": done.removed, "merges": merges, "digests": digests}
    return {**found, "unsupported": done.unsupported}


def _digest(item: MemoryItem) -> dict[str, JsonValue]:
    """Return the conversation of a digest, and its sentences with the ids of their turns."""
    mark = item.metadata.get(DIGEST)
    sentences = mark.get("sentences") if isinstance(mark, dict) else []
    return {"conversation": item.scope.conversation or item.scope.session, "sentences": sentences}


def _print(terminal: Terminal, store: str, done: Consolidation, *, dry_run: bool) -> None:
    if dry_run:
        for each in done.merges:
            terminal.print(f"  {_line(each.kept)}")
            for item in each.merged:
                terminal.print(f"- {_line(item)}", style="red")
        for item in done.digests:
            terminal.print(f"+ {_line(item)}", style="green")
    if done.unsupported:
        terminal.report("note", f"{done.unsupported:,} sentences of the model left out: no turn says so")
    into = f"{items_text(done.removed)} merged into {len(done.merges):,} of {done.items:,}"
    if dry_run:
        terminal.print(f"{store}: {into.replace(' merged', ' would be merged')}{_digests_text(done)}")
    elif done.run is None:
        terminal.print(f"{store}: no near-duplicates among {items_text(done.items)}")
    else:
        terminal.print(f"{store}: {into}{_digests_text(done)}, as run {short_run(done.run)}; `devmem revert` undoes it")


def _digests_text(done: Consolidation) -> str:
    count = len(done.digests)
    return f", {count:,} digest{'' if count == 1 else 's'}" if count else ""


def _line(item: MemoryItem) -> str:
    """Return an item on one line, with the user whose it is."""
    whose = "" if item.scope.user is None else f" [{item.scope.user}]"
    return f"{item.id[:_SHORT]}{whose} {one_line(item.full_text())}"
