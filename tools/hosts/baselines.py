"""Expected failures: those of a host's tests that an adapter does not pass, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Failures of a run beside those that are expected."""

    unexpected: tuple[str, ...]
    fixed: tuple[str, ...]
    """Expected to fail, and passed."""
    absent: tuple[str, ...]
    """Expected to fail, and did not run: renamed, removed or skipped."""

    @property
    def agrees(self) -> bool:
        """Whether exactly what is expected failed."""
        return not (self.unexpected or self.fixed or self.absent)


def read_baseline(file: Path) -> Mapping[str, str]:
    """Return the reasons by test, from a file with lists of tests by reason.

    Raises:
        ValueError: a test stands there twice.
    """
    reasons: dict[str, str] = {}
    for reason, tests in (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).items():
        for test in tests:
            if test in reasons:
                raise ValueError(f"{file}: {test} is listed twice")
            reasons[test] = reason
    return reasons


def compare(failed: Iterable[str], passed: Iterable[str], expected: Iterable[str]) -> Comparison:
    """Compare a whole run with its baseline."""
    known, bad, good = set(expected), set(failed), set(passed)
    return Comparison(
        unexpected=tuple(sorted(bad - known)),
        fixed=tuple(sorted((good & known) - bad)),
        absent=tuple(sorted(known - bad - good)),
    )
