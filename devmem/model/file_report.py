"""Reports of files that a memory keeps, examined without changing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devmem.findings import Finding, Level

Fact = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """Result of examining one file, or one folder, that a memory keeps."""

    path: str
    kind: str
    """Kind of file in words, as `outbox` or `index of files`."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Counts and recorded properties."""
    findings: Sequence[Finding] = ()
    """An error is damage or loss; a warning is work that waits, and that the next use of the store finishes."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged or lost."""
        return all(finding.level is not Level.ERROR for finding in self.findings)


def damage(message: str) -> Finding:
    """Return the finding of something that is damaged or lost."""
    return Finding(message=message)


def unfinished(message: str) -> Finding:
    """Return the finding of work that waits."""
    return Finding(message=message, level=Level.WARNING)
