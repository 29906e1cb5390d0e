"""Conclusions of facts that changed: how many of them a question finds, and whether each is marked as stale.

An episode is a fact, a conclusion of it, a change of the fact, and a question that the conclusion answers; there are
a hundred in `tests/data/stale_conclusions.jsonl`, and all of them are in one memory.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

import devmem
from devmem.memory.memory import Memory
from tools.bench.rows import JsonFile, Row, report
from tools.postgres_server import PostgresServer

_EPISODES: Final = Path(__file__).parents[2] / "tests" / "data" / "stale_conclusions.jsonl"
_SHOWN: Final = 5
_MODES: Final = ("mark", "hide", "renew")


def command(
    json_file: JsonFile = None,
    postgres: Annotated[bool, typer.Option(help="Use a PostgreSQL server, which is started for it.")] = False,
) -> None:
    """Ask a hundred questions after the facts behind their answers changed; exit with 1 if one is shown unmarked."""
    with closing(PostgresServer()) if postgres else nullcontext() as server:
        rows = list(run(server))
    report(rows, json_file)
    if any(row.value for row in rows if row.metric == "stale_unmarked"):
        raise typer.Exit(1)


def run(server: PostgresServer | None = None) -> Iterator[Row]:
    """Add every episode to a memory for each `on_stale`, then ask its questions; `server` keeps it, or else a file."""
    episodes = [json.loads(line) for line in _EPISODES.read_text(encoding="utf-8").splitlines()]
    for mode in _MODES:
        with tempfile.TemporaryDirectory(prefix="devmem-stale-") as folder:
            team = Path(folder) / "team.yaml"
            place = "notes.db" if server is None else server.url(store=mode)
            config = f"{{memory_path: '{place}', on_stale: {mode}}}"
            team.write_text(f"memory: [{{name: notes, type: simple, config: {config}}}]\n", encoding="utf-8")
            with devmem.open(f"{team}#notes") as memory:
                outdated = _told(memory, episodes)
            # Opened again: what was to be renewed was so when the memory was saved.
            with devmem.open(f"{team}#notes") as memory:
                yield from _asked(memory, episodes, outdated, partial(_row, mode))


def _told(memory: Memory, episodes: list[dict[str, str]]) -> set[str]:
    """Add the episodes; return the conclusions, which no longer hold."""
    for each in episodes:
        fact = memory.add(each["fact"], key=each["key"])
        memory.add(each["conclusion"], derived_from=[fact])
    for each in episodes:
        memory.add(each["change"], key=each["key"])
    return {each["conclusion"] for each in episodes}


def _asked(
    memory: Memory, episodes: list[dict[str, str]], outdated: set[str], row: Callable[[str, float], Row]
) -> Iterator[Row]:
    shown = unmarked = wrongly = current = 0
    started = time.perf_counter()
    for each in episodes:
        hits = memory.search(each["question"], limit=_SHOWN)
        shown += sum(hit.text in outdated for hit in hits)
        unmarked += sum(hit.text in outdated and not hit.stale for hit in hits)
        wrongly += sum(hit.text not in outdated and bool(hit.stale) for hit in hits)
        current += any(hit.text == each["change"] for hit in hits)
    seconds = time.perf_counter() - started
    yield row("episodes", len(episodes))
    yield row("stale_shown", shown)
    yield row("stale_unmarked", unmarked)
    yield row("marked_wrongly", wrongly)
    yield row("current_fact_shown", current)
    yield row("ms_per_question", 1000 * seconds / len(episodes))


def _row(mode: str, metric: str, value: float) -> Row:
    return Row(bench="stale", case=mode, metric=metric, value=value, unit="ms" if metric.startswith("ms") else "count")
