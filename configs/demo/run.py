"""The demo: `python -m configs.demo.run`, or `make demo`. It needs no network and no key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from devmem import MemoryItem, Workflow, WorkflowRunner, load_workflow, open_stores
from devmem.stores import WriteStatus
from devmem.transfer.importing.formats import read_records
from devmem.workflow import session_folder

_HERE: Final = Path(__file__).parent
_TEAM: Final = _HERE / "team.yaml"
_CONVERSATION: Final = _HERE / "conversation.jsonl"
_QUESTIONS: Final = _HERE / "questions.jsonl"
_SESSION: Final = "demo"
_SIGNALS: Final = ("score", "similarity", "lexical")
_FITS: Final = 0.6
"""A hit with this share of the best one's score fits too."""
_SAID_TODAY: Final = (
    "Jonas: The boat trip starts at three in the afternoon now, because of the tide.",
    "Mara: Fine. I tell the captain that we are forty people.",
)


def main() -> None:
    """Remember in this process, and have another one answer."""
    console = Console(highlight=False)
    workflow = load_workflow(_TEAM)
    shutil.rmtree(session_folder(workflow, _SESSION), ignore_errors=True)
    console.rule("1. A process remembers", align="left")
    remember(console, workflow)
    console.rule("2. Another process answers from memory", align="left")
    for answer in ask(console):
        show(console, answer)


def remember(console: Console, workflow: Workflow) -> None:
    """Import a conversation of three months, and let the scribe write down what is said today."""
    with open_stores(workflow, session=_SESSION) as stores:
        items = [record for record in read_records(_CONVERSATION) if isinstance(record, MemoryItem)]
        outcomes = stores["notes"].add(items)
        stored = sum(outcome.status is WriteStatus.STORED for outcome in outcomes)
        console.print(f"{stored} of {len(items)} turns of {_CONVERSATION.name} are in the store 'notes'.")
        runner = WorkflowRunner(workflow, stores)
        for text in _SAID_TODAY:
            result = runner.run(text, node="scribe").nodes[0]
            into = [write.store for written in result.written.values() for write in written.writes]
            console.print(f"the scribe writes into {' and '.join(into)}: {text}")
    console.print()


def ask(console: Console) -> list[dict[str, Any]]:
    """Start a process that knows nothing but the files, and give what it answers."""
    questions = ["--input-file", os.path.relpath(_QUESTIONS)]
    command = ["run", os.path.relpath(_TEAM), "--node", "analyst", "--session", _SESSION, *questions, "--json"]
    console.print(Text(f"devmem {' '.join(command)}", style="dim"), soft_wrap=True)
    console.print("Green: the newest of what fits; older facts that changed since then stay visible.\n")
    done = subprocess.run([sys.executable, "-m", "devmem", *command], stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own command
    return [json.loads(line) for line in done.stdout.splitlines()]


def show(console: Console, answer: dict[str, Any]) -> None:
    """Print a question and what was recalled for it."""
    recalled = answer["nodes"][0]["recalled"]
    found = [hit for hit in recalled if hit["store"] == "notes"]
    best = max((hit["score"] for hit in found), default=0.0)
    newest = max((hit["time"] for hit in found if hit["score"] >= _FITS * best), default=None)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("date", no_wrap=True)
    for name in _SIGNALS:
        table.add_column(name, no_wrap=True, justify="right", style="dim")
    table.add_column("recalled from the notes", overflow="fold")
    for hit in found:
        style = "green" if hit["time"] == newest else ""
        day = hit["time"].partition("T")[0]
        table.add_row(day, *(_number(hit.get(name)) for name in _SIGNALS), Text(hit["text"], style=style))
    console.print(Text(answer["input"], style="bold"))
    console.print(table)
    for hit in recalled:
        if hit["store"] == "board":
            console.print(Text(f"on the board: {hit['text']}", style="dim"))
    console.print()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
