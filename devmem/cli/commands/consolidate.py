"""`devmem consolidate`: merging, archiving and summarizing items, and extracting facts."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Final

import typer
from pydantic import JsonValue

from devmem.cli.declaring import option
from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.inputs import short_run
from devmem.cli.targets import JsonTerminal, Place, StoreAddress, check_lasting, seconds_of_option
from devmem.cli.terminal import Terminal
from devmem.errors import CommandError
from devmem.model.items import MemoryItem
from devmem.stores.archiving import MAX_TRUST, ArchiveRule
from devmem.stores.consolidation import Consolidation
from devmem.stores.consolidation import consolidate as consolidate_store
from devmem.stores.digests import DIGEST
from devmem.stores.fact_queue import FactStatus
from devmem.stores.facts import FactKeepingMemory
from devmem.stores.staleness import renew as renew_stale
from devmem.text.display import number_of, one_line


class _Facts(StrEnum):
    WAITING = "waiting"
    ALL = "all"


_SHORT: Final = 8


def consolidate(
    terminal: JsonTerminal,
    place: Place,
    dry_run: Annotated[bool, option("Show what would be done; change nothing.")] = False,
    ignore: Annotated[
        list[str] | None, option("Metadata key whose values may differ. Repeatable.", metavar="KEY")
    ] = None,
    digest_before: Annotated[
        str | None, option("Add digests of conversations that ended before: `30 days ago`.", metavar="TIME")
    ] = None,
    archive_before: Annotated[
        str | None, option("Archive items of low trust that were stored before: `180 days ago`.", metavar="TIME")
    ] = None,
    max_trust: Annotated[
        float | None, option("Trust up to which items are archived: 0.5.", metavar="TRUST", min=0, max=1)
    ] = None,
    summarize: Annotated[bool, option("Summarize older items instead, as the store's `summary` says.")] = False,
    renew: Annotated[bool, option("Summarize once more what is left of the sources of stale items instead.")] = False,
    facts: Annotated[
        _Facts | None, option("Extract the facts of the turns that wait, or of all without facts, instead.")
    ] = None,
) -> None:
    """Merge, archive or summarize items, or extract facts.

    Near-duplicates are merged in one run, which can be reverted. Texts of the same user, agent, session and
    conversation that differ only in case, marks, articles, contractions or courtesies become one item, which tells of
    the others in its metadata. A number, a name, a negation or a word that differs makes another statement. Items that
    are pinned, have a key, or are in quarantine stay unchanged, and so do messages, and items that others were derived
    from. If it is interrupted, run the command again.

    With `--digest-before`, each conversation that ended before gets a digest, whose sentences name their turns. With
    `--archive-before`, items of low trust that were stored before and that no agent was ever shown leave the indexes;
    `devmem list --archived` shows them, and `devmem update --unarchive` brings one back. What agents were shown is
    known from the logs of a workflow with `record_recalls`.

    A renewed item (`--renew`, see `devmem list --stale`) keeps its id; its text before stays in its history.

    A store with a `facts:` block asks its chat model about each turn in the background, after the turn is stored;
    `devmem stores` shows how many facts it found. The turns that wait, as while the model is down, are asked about
    after later writes, or now with `--facts waiting`. `--facts all` asks again about turns without facts.

    Examples:
        devmem consolidate notes.db --archive-before "180 days ago" --dry-run
        devmem consolidate team.yaml notes --ignore line
        devmem consolidate team.yaml global --summarize
        devmem consolidate team.yaml global --renew
        devmem consolidate team.yaml notes --facts waiting
    """
    if summarize or renew or facts is not None:
        merges = dry_run or ignore or digest_before is not None or archive_before is not None or max_trust is not None
        if merges or (summarize, renew, facts is not None).count(True) > 1:
            raise CommandError("--summarize, --renew and --facts cannot be combined with other options.")
        if facts is not None:
            _extract_facts(terminal, place, whole=facts is _Facts.ALL)
            return
        with place.opened_existing(save=True) as opened:
            count, total = (len(renew_stale(opened)) if renew else opened.compress()), opened.count()
        what = "renewed" if renew else "summarized"
        answer = {"store": place.store, what: count, "items": total}
        terminal.answer(answer, f"{place.store}: {count:,} {what}")
        return
    if max_trust is not None and archive_before is None:
        raise CommandError("--max-trust requires --archive-before.")
    rule = None
    if archive_before is not None:
        before = seconds_of_option("--archive-before", archive_before)
        rule = ArchiveRule(before=before, max_trust=MAX_TRUST if max_trust is None else max_trust)
    digested = None if digest_before is None else seconds_of_option("--digest-before", digest_before)
    with (
        place.opened_existing(looking=dry_run) as opened,
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
    _print(terminal, place.store, done, dry_run=dry_run)


def _digest(item: MemoryItem) -> dict[str, JsonValue]:
    """Return the conversation of a digest, and its sentences with the ids of their turns."""
    mark = item.metadata.get(DIGEST)
    sentences = mark.get("sentences") if isinstance(mark, dict) else []
    return {"conversation": item.scope.conversation or item.scope.session, "sentences": sentences}


def _print(terminal: Terminal, store: str, done: Consolidation, *, dry_run: bool) -> None:
    if terminal.as_json:
        terminal.json(
            {
                "store": store,
                "dry_run": dry_run,
                "run": done.run,
                "items": done.items,
                "removed": done.removed,
                "merges": [{"kept": each.kept.id, "merged": [item.id for item in each.merged]} for each in done.merges],
                "digests": [{"id": item.id, **_digest(item)} for item in done.digests],
                "unsupported": done.unsupported,
                "archived": [item.id for item in done.archived],
                "recalls_known": done.recalls_known,
            }
        )
        return
    if dry_run:
        _print_plan(terminal, done)
    if not done.recalls_known:
        terminal.report("note", "what agents were shown was not recorded (`record_recalls`): only age and trust decide")
    if done.unsupported:
        terminal.report(
            "note", f"{done.unsupported:,} sentences of the model were left out because no turn supports them"
        )
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


def _extract_facts(terminal: Terminal, place: StoreAddress, *, whole: bool) -> None:
    """Extract the facts of the turns that wait, or of all turns without facts, and print the counts."""
    with place.opened_existing(save=True) as store:
        check_lasting(store, "its facts")
        if not isinstance(store, FactKeepingMemory) or (status := store.fact_status()) is None:
            raise CommandError(
                f"memory store {store.name!r} extracts no facts: give it a `facts: {{llm: ...}}` block in a workflow; "
                "stores of the types `simple` and `conversation` take one."
            )
        with terminal.progress(f"extracting facts of {place.store}", None if whole else status.waiting) as bar:
            status = store.catch_up_facts(lambda done: bar.update(bar.task_ids[0], completed=done), whole=whole)
    dropped = [f"  {count:,} dropped: {reason}" for reason, count in status.dropped.items()]
    text = "\n".join([f"{place.store}: {facts_text(status)}", *dropped])
    terminal.answer({"store": place.store, **asdict(status)}, text)
    if status.waiting:
        reason = status.failure or "another process is extracting them"
        terminal.report("error", f"{number_of(status.waiting, 'turn')} still waiting: {reason}")
        raise typer.Exit(EXIT_PARTLY)


def facts_text(status: FactStatus) -> str:
    """Return the counts in words, for people."""
    calls = number_of(status.calls, "call") + (f", {status.failures:,} of them failed" if status.failures else "")
    tokens = f"{calls}, {status.input_tokens:,} tokens in, {status.output_tokens:,} out"
    return f"{number_of(status.extracted, 'fact')} extracted, {number_of(status.waiting, 'turn')} waiting ({tokens})"
