"""Forgetting in a whole workflow from the command line: the question before it, and the receipt after it."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import typer

from devmem.cli.describe import item_date, items_text
from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import check_session
from devmem.collections import Erasing, Unreached
from devmem.config import Workflow
from devmem.forgetting.planning import ForgettingPlan
from devmem.model.items import MemoryItem
from devmem.runtime.forgetting import WorkflowForgetting
from devmem.text.display import one_line
from devmem.text.sentences import shorten
from devmem.views.receipts import workflow_receipt_json, workflow_receipt_lines

_SHOWN: Final = 5
"""Maximum number of items that are listed before the question."""
_SNIPPET: Final = 70
"""Characters of a listed item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOptions:
    """Options of a forgetting."""

    session: str | None
    """The only session; None means all of a workflow, and the usual one of a single store."""
    vacuum: bool
    dry_run: bool
    yes: bool
    as_json: bool


def forget_in_workflow(terminal: Terminal, workflow: Workflow, erasing: Erasing, options: ForgetOptions) -> None:
    """Forget items in every store of a workflow, after asking, and print the receipt."""
    if options.session is not None:
        check_session(workflow, options.session)
    with WorkflowForgetting(workflow, session=options.session) as forgetting:
        plan = forgetting.plan(erasing, settle=not options.dry_run)
        _check_all_there(plan, erasing)
        items, derived = plan.items, {name for each in plan.targets for name in each.derived}
        if (items or plan.writes) and not options.dry_run and not options.yes:
            confirm_forgetting(terminal, items, derived, of=str(workflow.file or "the workflow"))
        receipt = forgetting.preview(plan) if options.dry_run else forgetting.carry_out(plan, vacuum=options.vacuum)
    if options.as_json:
        terminal.json(workflow_receipt_json(receipt, dry_run=options.dry_run))
    else:
        if options.dry_run:
            list_forgotten(terminal, items, derived)
        for line in workflow_receipt_lines(receipt, dry_run=options.dry_run):
            terminal.print(line)
    end_partly(receipt.left)


def end_partly(unreached: Iterable[Unreached]) -> None:
    """End the command with `EXIT_PARTLY` where something went wrong in a place."""
    if any(left.failed for left in unreached):
        raise typer.Exit(EXIT_PARTLY)


def _check_all_there(plan: ForgettingPlan, erasing: Erasing) -> None:
    """Raise `CommandError` when a named item is in no store."""
    there = {name for each in plan.targets for name in each.items}
    if missing := [name for name in erasing.ids or () if name not in there]:
        raise CommandError(f"no store has an item {', '.join(map(repr, missing))}.")


def confirm_forgetting(terminal: Terminal, items: Sequence[MemoryItem], derived: Container[str], *, of: str) -> None:
    """Ask for confirmation; raises `CommandError` when nobody can answer, and ends the command unless it is yes."""
    count = items_text(len(items))
    if not can_ask():
        raise CommandError(f"{count} of {of} would be forgotten, and nobody can be asked here: add --yes.")
    list_forgotten(terminal, items, derived)
    typer.confirm(f"Forget {count} of {of}?", abort=True, err=True)


def can_ask() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def list_forgotten(terminal: Terminal, items: Sequence[MemoryItem], derived: Container[str]) -> None:
    """Print some of the items that are to be forgotten."""
    for item in items[-_SHOWN:]:
        owner = f"  user {item.scope.user}" if item.scope.user else ""
        how = "  (derived)" if item.id in derived else ""
        text = shorten(one_line(item.content_summary), _SNIPPET)
        terminal.print(f"{item_date(item)}  {item.id}{how}{owner}  {text}")
    if len(items) > _SHOWN:
        terminal.print(f"and {len(items) - _SHOWN:,} more")
