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

    @property
    def agrees(self) -> bool:
        """Whether exactly what is expected failed."""
        return not self.unexpected and not self.fixed


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
    """Compare a run with its baseline; a test that did not run is neither fixed nor unexpected."""
    known = set(expected)
    return Comparison(
        unexpected=tuple(sorted(set(failed) - known)),
        fixed=tuple(sorted(set(passed) & known)),
    )
