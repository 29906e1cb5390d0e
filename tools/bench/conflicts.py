"""Contradictions that a store finds as it is written to: precision, coverage by threshold, and the cost of a write.

Three sets in `tests/data`: `updates.jsonl`, which the rules were written with, `statement_pairs.jsonl`, written without
a look at them, and `conflicts.jsonl`, related statements of which the older one says more than the newer one, or not.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

import devmem
from devmem.memory import Memory
from devmem.model.results import WriteStatus
from devmem.text.statements import restated_share
from tools.bench.rows import JsonFile, Row, report

DATA: Final = Path(__file__).parents[2] / "tests" / "data"
SETS: Final = ("updates", "statement_pairs", "conflicts")
THRESHOLDS: Final = (0.01, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_SIZES: Final = (1000, 10_000)
_TIMED: Final = 300
"""Writes of each kind whose time is compared."""
_MODES: Final = ("absent", "keep", "supersede", "ask")
_WORKFLOW: Final = "memory: [{{name: notes, type: simple, config: {{memory_path: {name}.db{option}}}}}]"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, and whether the newer one may take the place of the older one."""

    older: str
    newer: str
    replaces: bool


def command(json_file: JsonFile = None, size: int = _SIZES[-1]) -> None:
    """Measure which statements supersede others and what writes cost; exit with 1 if one supersedes wrongly."""
    rows = [row for name in SETS for row in _shares(name, read_pairs(name))]
    wrong: list[Pair] = []
    with tempfile.TemporaryDirectory(prefix="devmem-conflicts-") as folder:
        for name in SETS:
            pairs = read_pairs(name)
            superseded = superseded_of(pairs, Path(folder), name)
            wrong += [pair for pair in superseded if not pair.replaces]
            right = sum(pair.replaces for pair in superseded)
            rows.append(_row(name, "store", "superseded rightly", right, "pairs"))
            rows.append(_row(name, "store", "superseded wrongly", len(superseded) - right, "pairs"))
            rows.append(_row(name, "store", "left", sum(pair.replaces for pair in pairs) - right, "pairs"))
        for each in _SIZES:
            if each <= size:
                rows += _costs(Path(folder), each)
    report(rows, json_file)
    for pair in wrong:
        typer.echo(f"superseded wrongly: {pair.older!r} by {pair.newer!r}")
    if wrong:
        raise typer.Exit(1)


def read_pairs(name: str) -> list[Pair]:
    """Read one of the sets."""
    found = map(json.loads, (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
    return [Pair(each["older"], each["newer"], each.get("replaces", each.get("update"))) for each in found]


def superseded_of(pairs: Sequence[Pair], folder: Path, name: str) -> list[Pair]:
    """Return the pairs of which the newer one superseded the other in a store, each being that of another user."""
    with _open(folder, name, "supersede") as memory:
        for at, pair in enumerate(pairs):
            memory.add(pair.older, user=f"user {at}")
        outcomes = [memory.add_outcomes(pair.newer, user=f"user {at}")[0] for at, pair in enumerate(pairs)]
    return [pair for pair, outcome in zip(pairs, outcomes, strict=True) if outcome.status is WriteStatus.SUPERSEDED]


def _shares(name: str, pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yield the precision and the coverage of each threshold of the share that is restated."""
    shares = [restated_share(pair.older, pair.newer) for pair in pairs]
    wanted = sum(pair.replaces for pair in pairs)
    for threshold in THRESHOLDS:
        found = [pair.replaces for pair, share in zip(pairs, shares, strict=True) if share >= threshold]
        yield _row(name, f"threshold {threshold:g}", "precision", sum(found) / max(len(found), 1), "share")
        yield _row(name, f"threshold {threshold:g}", "coverage", sum(found) / wanted, "share")


def _costs(folder: Path, size: int) -> Iterator[Row]:
    """Time writes with and without the option in turns; the median of their CPU time."""
    memories = {mode: _open(folder, f"cost-{mode}-{size}", None if mode == "absent" else mode) for mode in _MODES}
    times: dict[str, list[float]] = {mode: [] for mode in _MODES}
    try:
        for memory in memories.values():
            # Many at once, as statements that nothing contradicts; every tenth one shares words with those below.
            memory.store.add([*_items(memory, size)])
        for at in range(_TIMED):
            for mode, memory in memories.items():
                text = f"Visitor {at} works at the office in town {at % 7} since {1990 + at % 30}."
                started = time.thread_time()
                memory.add(text)
                times[mode].append(1e6 * (time.thread_time() - started))
    finally:
        for memory in memories.values():
            memory.close()
    for mode, found in times.items():
        yield _row(f"{size} items", mode, "CPU time of add", statistics.median(found), "µs")


def _items(memory: Memory, size: int) -> Iterator[devmem.MemoryItem]:
    for at in range(size):
        place = "office in town" if at % 10 == 0 else f"garden {at % 97}"
        yield devmem.MemoryItem(
            id=f"item {at}", content_summary=f"Guest {at} works at the {place} {at}.", created_at=float(at),
            scope=memory.new_scope(),
        )  # fmt: skip


def _row(bench: str, case: str, metric: str, value: float, unit: str) -> Row:
    return Row(bench=f"conflicts: {bench}", case=case, metric=metric, value=value, unit=unit)


def _open(folder: Path, name: str, on_conflict: str | None) -> Memory:
    workflow = folder / f"{name}.yaml"
    option = "" if on_conflict is None else f", on_conflict: {on_conflict}"
    workflow.write_text(_WORKFLOW.format(name=name, option=option), encoding="utf-8")
    return devmem.open(f"{workflow}#notes")
