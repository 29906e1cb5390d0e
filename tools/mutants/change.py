"""A change that breaks a guarantee, with the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A replacement of one piece of code that occurs exactly once in a file."""

    name: str
    breaks: str
    """The guarantee that no longer holds."""
    file: str
    """Path from the project's root."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Files, or tests of files, in which the guarantee is tested: those that take the least time."""

    def applied_to(self, source: str) -> str:
        """Return a source with the replacement.

        Raises:
            ValueError: the code to replace is not there exactly once.
        """
        if (found := source.count(self.old)) != 1:
            raise ValueError(f"the code to change occurs {found} times in {self.file}: {self.old!r}")
        return source.replace(self.old, self.new)
