"""The result of one class of faults, and the table made of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tools.bench.rows import Row

COUNTS: Final = ("tried", "acknowledged", "lost", "doubled", "leaked", "wrong", "unrecovered")
FAILURES: Final = COUNTS[2:]
_HEADS: Final = ("tried", "acked", "lost", "twice", "leaked", "wrong", "stuck")
"""Heads of the columns that fit a terminal of 80 columns."""


@dataclass(slots=True, kw_only=True)
class Result:
    """The counts of one class of faults."""

    fault: str
    tried: int = 0
    """Number of faults injected."""
    acknowledged: int = 0
    """Number of items whose write had been acknowledged when a fault came."""
    lost: int = 0
    """Acknowledged items that are gone, without the store having reported it."""
    doubled: int = 0
    """Items that are there more than once."""
    leaked: int = 0
    """Items that were visible where they must not be."""
    wrong: int = 0
    """Answers that differ from those of an exhaustive scan."""
    unrecovered: int = 0
    """Stores that could not be used afterwards, and errors that are not devmem's own."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    """A line for each failure: its seed and what was seen."""

    def fail(self, count: str, note: str, number: int = 1) -> None:
        """Count a failure and keep the first notes."""
        setattr(self, count, getattr(self, count) + number)
        if len(self.notes) < 20:
            self.notes.append(f"{self.fault}: {count}: {note}")

    @property
    def failed(self) -> bool:
        """Whether anything went wrong."""
        return any(getattr(self, name) for name in FAILURES)

    def rows(self, subject: str = "devmem") -> list[Row]:
        """Return the counts as flat rows."""
        values = asdict(self)
        case = self.fault if subject == "devmem" else f"{subject}:{self.fault}"
        return [
            Row(bench="torture", case=case, metric=name, value=float(values[name]), unit="count") for name in COUNTS
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The extent of a run, its seed and its folder."""

    folder: Path
    seed: int
    short: bool = False

    def random(self, *salt: object) -> Random:
        """Return a generator that is the same in every run with this seed."""
        return Random(f"{self.seed}/{salt}")

    def extent(self, *, short: int, full: int) -> int:
        """Return the number of faults to inject."""
        return short if self.short else full


def print_results(results: Sequence[Result], console: Console, title: str) -> None:
    """Print the table, then a line for each failure."""
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("fault")
    for name in (*_HEADS, "s"):
        # A number that is cut off is another number.
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for result in results:
        counts = (str(getattr(result, name)) for name in COUNTS)
        table.add_row(result.fault, *counts, f"{result.seconds:.0f}")
    console.print(table)
    for note in (note for result in results for note in result.notes):
        console.print(note, markup=False, highlight=False)
