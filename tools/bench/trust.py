"""Shares of hostile texts that a guard blocks and of harmless ones that it keeps, and its cost to a write.

The sets are in `tests/data/trust`; each has a half that the rules were written with (`dev`), one that was held out, and
a smaller third part that was written after the rules and read once they had been counted on it. All by one author.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

import devmem
from devmem.memory import Memory
from devmem.stores import Provenance, SourceKind
from tools.bench.rows import JsonFile, Row, report

DATA: Final = Path(__file__).parents[2] / "tests" / "data" / "trust"
PARTS: Final = ("dev", "held-out", "third")
HELD_OUT: Final = "held-out"
_SHOWN: Final = 160
_PAIRS: Final = 1000
"""Writes of each kind whose time is compared."""
_WORKFLOW: Final = "memory: [{{name: notes, type: simple, config: {{memory_path: {name}.db{guard}}}}}]"


@dataclass(frozen=True, slots=True)
class Case:
    """Texts that one source writes, one after the other."""

    id: str
    half: str
    kind: str
    source: str
    texts: tuple[str, ...]


def command(
    json_file: JsonFile = None,
    held_out: Annotated[
        bool, typer.Option(help="List the misses of the held-out half; not for writing rules.")
    ] = False,
) -> None:
    """Count what a guard blocks of 340 hostile texts and keeps of 1,100 harmless ones, and time writes with it."""
    with tempfile.TemporaryDirectory(prefix="devmem-trust-") as folder:
        rows: list[Row] = []
        misses: list[tuple[str, Case]] = []
        for half in PARTS:
            for name in ("hostile", "harmless"):
                cases = [case for case in read_cases(name) if case.half == half]
                caught = caught_of(cases, Path(folder), f"{name}-{half}", apart=name == "hostile")
                wrong = [case for case in cases if (case.id in caught) != (name == "hostile")]
                misses += [(name, case) for case in wrong]
                metric = "blocked" if name == "hostile" else "kept"
                rows += _shares(half, metric, cases, wrong)
        rows += _costs(Path(folder))
    report(rows, json_file)
    for name, case in misses:
        if case.half == HELD_OUT and not held_out:
            continue
        typer.echo(f"{name} {case.half} {case.id}: {' || '.join(case.texts)!r:.{_SHOWN}}")


def read_cases(name: str) -> list[Case]:
    """Read `hostile` or `harmless` cases."""
    files = (DATA / f"{name}.jsonl", DATA / f"{name}_third.jsonl")
    found = (json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines())
    return [Case(each["id"], each["half"], each["kind"], each["source"], tuple(each["texts"])) for each in found]


def caught_of(cases: Sequence[Case], folder: Path, name: str, *, apart: bool) -> set[str]:
    """Write cases to a guarded store and return the ids of those of which something is in quarantine.

    Args:
        cases: the cases.
        folder: where the store is made.
        name: name of its file.
        apart: whether each case belongs to a user of its own; otherwise all follow each other in one scope.
    """
    caught: set[str] = set()
    with _opened(folder, name, "guard: {}") as memory:
        for case in cases:
            source = Provenance(kind=SourceKind(case.source), name="source")
            ids = [memory.add(text, source=source, user=case.id if apart else "all") for text in case.texts]
            if any(record.quarantine_reason is not None for record in memory.get(ids)):
                caught.add(case.id)
    return caught


def _shares(half: str, metric: str, cases: Sequence[Case], wrong: Sequence[Case]) -> list[Row]:
    kinds = dict.fromkeys(case.kind for case in cases)
    parts = [("all", cases, wrong)] + [
        (kind, [case for case in cases if case.kind == kind], [case for case in wrong if case.kind == kind])
        for kind in kinds
    ]
    return [
        Row(bench=f"trust: {half}", case=metric, metric=kind, value=1 - len(bad) / len(of), unit="share")
        for kind, of, bad in parts
    ]


def _costs(folder: Path) -> list[Row]:
    """Time writes with and without a guard in turns; the median of their CPU time, which no other program changes."""
    texts = [case.texts[0] for case in read_cases("harmless")][:_PAIRS]
    tool = Provenance(kind=SourceKind.TOOL, name="source")
    rules = "duplicates: true, empty_talk: true, per_minute: 100000, max_length: 100000"
    places = {"no guard": "", "no checks": "guard: {checks: []}", "orders": "guard: {}", "all": f"guard: {{{rules}}}"}
    times: dict[str, list[float]] = {name: [] for name in places}
    with _all_opened(folder, places) as memories:
        for text in texts:
            for name, memory in memories.items():
                started = time.thread_time()
                memory.add(text, source=tool)
                times[name].append(1e6 * (time.thread_time() - started))
    return [
        Row(bench="trust: cost", case=name, metric="CPU time of add", value=statistics.median(found), unit="µs")
        for name, found in times.items()
    ]


@contextmanager
def _all_opened(folder: Path, places: dict[str, str]) -> Iterator[dict[str, Memory]]:
    memories = {name: _open(folder, f"cost-{at}", guard) for at, (name, guard) in enumerate(places.items())}
    try:
        yield memories
    finally:
        for memory in memories.values():
            memory.close()


@contextmanager
def _opened(folder: Path, name: str, guard: str) -> Iterator[Memory]:
    with _open(folder, name, guard) as memory:
        yield memory


def _open(folder: Path, name: str, guard: str) -> Memory:
    workflow = folder / f"{name}.yaml"
    workflow.write_text(_WORKFLOW.format(name=name, guard=f", {guard}" if guard else ""), encoding="utf-8")
    return devmem.open(f"{workflow}#notes")
