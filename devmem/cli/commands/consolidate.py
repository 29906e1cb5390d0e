"""`devmem consolidate` and `quarantine`: merging and summarizing items, and deciding on what a guard caught."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from pydantic import JsonValue

from devmem.cli.failures import usage_errors
from devmem.cli.inputs import full_id, short_run
from devmem.cli.targets import (
    AsJson,
    MemoryPlace,
    OptionalStore,
    Session,
    find_store,
    opened_existing,
    seconds_of_option,
)
from devmem.cli.terminal import Terminal, date_text, zoned
from devmem.errors import CommandError
from devmem.memory.memory import Memory
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.items import ANY, MemoryItem, is_quarantined
from devmem.stores.archiving import MAX_TRUST, ArchiveRule
from devmem.stores.consolidation import Consolidation
from devmem.stores.consolidation import consolidate as consolidate_store
from devmem.stores.digests import DIGEST
from devmem.text.display import number_of, one_line
from devmem.views.documents import current_item_json

_SHORT: Final = 8
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
_Ignore = Annotated[
    list[str] | None, typer.Option(metavar="KEY", help="Metadata key whose values may differ. Repeatable.")
]
_DigestBefore = Annotated[
    str | None, typer.Option(metavar="TIME", help="Add digests of conversations that ended before: `30 days ago`.")
]
_ArchiveBefore = Annotated[
    str | None, typer.Option(metavar="TIME", help="Archive items of low trust that were stored before: `180 days ago`.")
]
_MaxTrust = Annotated[
    float | None, typer.Option(metavar="TRUST", min=0, max=1, help="Trust up to which items are archived: 0.5.")
]


def consolidate(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    dry_run: _DryRun = False,
    ignore: _Ignore = None,
    digest_before: _DigestBefore = None,
    archive_before: _ArchiveBefore = None,
    max_trust: _MaxTrust = None,
    summarize: Annotated[
        bool, typer.Option("--summarize", help="Summarize older items instead, as the store's `summary` says.")
    ] = False,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Merge near-duplicates, archive old items, or summarize older ones.

    Near-duplicates are merged in one run, which can be reverted. Texts of the same user, agent, session and
    conversation that differ only in case, marks, articles, contractions or courtesies become one item, which tells of
    the others in its metadata. A number, a name, a negation or a word that differs makes another statement. Items that
    are pinned, have a key, or are in quarantine stay unchanged, and so do messages, and items that others were derived
    from. Interrupted, the command begins again when it is run again.

    With `--digest-before`, each conversation that ended before gets a digest, whose sentences name their turns. With
    `--archive-before`, items of low trust that were stored before and that no agent was ever shown leave the indexes;
    `devmem list --archived` shows them, and `devmem update --unarchive` brings one back. What agents were shown is
    known from the logs of a workflow with `record_recalls`.

    Examples:
        devmem consolidate notes.db --archive-before "180 days ago" --dry-run
        devmem consolidate team.yaml notes --ignore line
        devmem consolidate team.yaml global --summarize
    """
    terminal: Terminal = ctx.obj
    if summarize:
        if dry_run or ignore or digest_before is not None or archive_before is not None or max_trust is not None:
            raise CommandError("--summarize stands alone: merging, digests and archiving are another step.")
        place = find_store(terminal, memory, store, session)
        with opened_existing(terminal, place, save=True) as opened:
            summarized, total = opened.compress(), opened.count()
        answer = {"store": place.store, "summarized": summarized, "items": total}
        terminal.answer(answer, f"{place.store}: {summarized:,} summarized", as_json=as_json)
        return
    rule = _rule(archive_before, max_trust)
    digested = None if digest_before is None else seconds_of_option("--digest-before", digest_before)
    place = find_store(terminal, memory, store, session)
    with (
        opened_existing(terminal, place, looking=dry_run) as opened,
        terminal.progress(f"reading {place.store}", opened.count()) as bar,
    ):
        done = consolidate_store(
            opened,
            ignore=ignore or (),
            digest_before=digested,
            archive=rule,
            dry_run=dry_run,
            progress=lambda so_far: bar.update(bar.task_ids[0], completed=so_far),
        )
    _print(terminal, place.store, done, dry_run=dry_run, as_json=as_json)


def _rule(archive_before: str | None, max_trust: float | None) -> ArchiveRule | None:
    if archive_before is None:
        if max_trust is not None:
            raise CommandError("--max-trust is of --archive-before.")
        return None
    trust = MAX_TRUST if max_trust is None else max_trust
    return ArchiveRule(before=seconds_of_option("--archive-before", archive_before), max_trust=trust)


def _as_json(done: Consolidation) -> dict[str, object]:
    merges = [{"kept": each.kept.id, "merged": [item.id for item in each.merged]} for each in done.merges]
    digests = [{"id": item.id, **_digest(item)} for item in done.digests]
    found = {"run": done.run, "items": done.items, "removed": done.removed, "merges": merges, "digests": digests}
    archived = {"archived": [item.id for item in done.archived], "recalls_known": done.recalls_known}
    return {**found, "unsupported": done.unsupported, **archived}


def _digest(item: MemoryItem) -> dict[str, JsonValue]:
    """Return the conversation of a digest, and its sentences with the ids of their turns."""
    mark = item.metadata.get(DIGEST)
    sentences = mark.get("sentences") if isinstance(mark, dict) else []
    return {"conversation": item.scope.conversation or item.scope.session, "sentences": sentences}


def _print(terminal: Terminal, store: str, done: Consolidation, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        terminal.json({"store": store, "dry_run": dry_run, **_as_json(done)})
        return
    if dry_run:
        _print_plan(terminal, done)
    if not done.recalls_known:
        terminal.report("note", "no log tells what agents were shown (`record_recalls`): age and trust decide alone")
    if done.unsupported:
        terminal.report("note", f"{done.unsupported:,} sentences of the model left out: no turn says so")
    into = f"{number_of(done.removed, 'item')} merged into {len(done.merges):,} of {done.items:,}"
    if dry_run:
        terminal.print(f"{store}: {into.replace(' merged', ' would be merged')}{_others_text(done)}")
    elif done.run is None:
        terminal.print(f"{store}: no near-duplicates among {number_of(done.items, 'item')}")
    else:
        terminal.print(
            f"{store}: {into}{_others_text(done)}, as run {short_run(done.run)}; `devmem runs --revert` undoes it"
        )


def _print_plan(terminal: Terminal, done: Consolidation) -> None:
    for each in done.merges:
        terminal.print(f"  {_line(each.kept)}")
        for item in each.merged:
            terminal.print(f"- {_line(item)}", style="red")
    for item in done.digests:
        terminal.print(f"+ {_line(item)}", style="green")
    for item in done.archived:
        terminal.print(f"archive {_line(item)}", style="yellow")


def _others_text(done: Consolidation) -> str:
    digests, archived = len(done.digests), len(done.archived)
    made = f", {number_of(digests, 'digest')}" if digests else ""
    return made + (f", {archived:,} archived" if archived else "")


def _line(item: MemoryItem) -> str:
    """Return an item on one line, with the user whose it is."""
    whose = "" if item.scope.user is None else f" [{item.scope.user}]"
    return f"{item.id[:_SHORT]}{whose} {one_line(item.full_text())}"


_COLUMNS = ("stored", "deleted", "id", "source", "reason", "text")


def quarantine(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    approve: Annotated[
        str | None, typer.Option(metavar="ID", help="Take an item out of quarantine, so that searches find it.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Forget an item in quarantine.")] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason of the decision, for the history.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest items.")] = 20,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """List what a guard caught, newest first, and approve or reject it.

    No search finds an item in quarantine. It is deleted when the time of the store's `guard: {keep: ...}` has passed.

    Examples:
        devmem quarantine team.yaml notes
        devmem quarantine team.yaml notes --approve 5f2c --reason "our own newsletter"
        devmem quarantine notes.db --reject 5f2c
    """
    terminal: Terminal = ctx.obj
    if approve is not None and reject is not None:
        raise CommandError("give either --approve or --reject.")
    if reason and approve is None:
        raise CommandError("--reason is of --approve.")
    decides = approve or reject
    place = find_store(terminal, memory, store, session, reading=decides is None)
    with opened_existing(terminal, place, save=decides is not None, looking=decides is None) as opened, usage_errors():
        whole = Memory(opened)
        if approve is not None:
            record = whole.approve(full_id(opened, approve), reason=reason)
            terminal.answer(current_item_json(record), f"{place.store}: approved {record.id}", as_json=as_json)
        elif reject is not None:
            rejected = full_id(opened, reject)
            found = whole.get(rejected)
            if found is None or not is_quarantined(found):
                raise CommandError(f"{rejected!r} is not in quarantine")
            whole.forget(rejected)
            terminal.answer({"rejected": rejected}, f"{place.store}: rejected {rejected}", as_json=as_json)
        else:
            records = whole.list(limit, quarantined=True, user=ANY)
            if as_json:
                terminal.json([current_item_json(record) for record in records])
            elif not records:
                terminal.print("nothing is in quarantine")
            else:
                terminal.table(zoned(_COLUMNS), [_row(record) for record in records])


def _row(record: MemoryItem) -> tuple[str, ...]:
    item = record
    source = f"{item.provenance.kind.value} {item.provenance.name}".strip()
    until = date_text(item.expires_at)
    return date_text(item.created_at), until, item.id, source, record.quarantine_reason or "", item.content_summary
