"""Collects what is wrong in a document, so that all of it is said at once."""

from __future__ import annotations

from typing import Final

from devmem.config.document import Document, Path, path_text
from devmem.config.place import Place
from devmem.errors import ConfigError, Problem

MAX_PROBLEMS: Final = 200
"""How many problems of one document are shown."""


class Report:
    """The problems and warnings of one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._problems: dict[Problem, None] = {}
        self._warnings: dict[Problem, None] = {}
        self._spoiled: set[Path] = set()

    @property
    def is_full(self) -> bool:
        """Whether further problems are not shown, so that wording them is a waste."""
        return len(self._problems) >= MAX_PROBLEMS

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings so far, by line."""
        return tuple(sorted(self._warnings, key=_by_line))

    def place(self, path: Path) -> Place:
        """Return the place at a path."""
        return Place(location=path, path=path_text(path), line=self.document.line(path))

    def error(self, path: Path, message: str) -> None:
        """Note that something at `path` cannot be used."""
        if path in self._spoiled:
            return
        if not self.is_full:
            self._problems[self._problem(path, message)] = None

    def spoil(self, path: Path, message: str) -> None:
        """Note that the value at `path` could not be worked out, so that nothing else about it need be said."""
        self.error(path, message)
        self._spoiled.add(path)

    def warn(self, path: Path, message: str) -> None:
        """Note that something at `path` is probably not meant."""
        if len(self._warnings) < MAX_PROBLEMS:
            self._warnings[self._problem(path, message)] = None

    def raise_problems(self) -> None:
        """Raise everything noted as wrong, by line.

        Raises:
            ConfigError: there is at least one problem.
        """
        if not self._problems:
            return
        problems = sorted(self._problems, key=_by_line)
        if self.is_full:
            message = f"only the first {MAX_PROBLEMS} problems are shown; mend these first"
            problems.append(Problem(message=message, file=self.document.origin))
        raise ConfigError(problems)

    def _problem(self, path: Path, message: str) -> Problem:
        line = self.document.line(path) if path else None
        return Problem(message=message, path=path_text(path), file=self.document.origin, line=line)


def _by_line(problem: Problem) -> int:
    return problem.line or 0
