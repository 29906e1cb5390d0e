"""Snapshots of a database: which transactions a moment shows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which transactions one moment of the database shows."""

    contents: Hashable
    """Of the connection: numbers of other contents mean something else."""
    xmin: int
    """All with lower numbers are shown, as far as they were committed."""
    xmax: int
    """None from here on is shown."""
    running: tuple[int, ...]
    """Those between that are not shown."""

    @classmethod
    def parse(cls, text: str, contents: Hashable) -> Snapshot:
        """Read the textual form of a `pg_snapshot`: `xmin:xmax:running,...`."""
        xmin, xmax, running = text.split(":")
        return cls(contents, int(xmin), int(xmax), tuple(int(each) for each in running.split(",") if each))

    def shows_all_of(self, earlier: Snapshot) -> bool:
        """Whether everything that another snapshot of the same contents shows is shown."""
        later = (each for each in self.running if each < earlier.xmax)
        return earlier.xmax <= self.xmax and all(each in earlier.running for each in later)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.running))}"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the follower's conditions."""
        return {"xmin": str(self.xmin), "xmax": str(self.xmax), "running": [str(each) for each in self.running]}


NOTHING_SHOWN: Final = Snapshot(None, 0, 0, ())
"""Shows nothing, so that everything is new."""
