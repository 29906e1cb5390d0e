"""Collects what is wrong in a document, so that all of it is reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from devmem.config.base import Place
from devmem.config.document import Document, DocumentPath, path_text
from devmem.config.findings import Rule
from devmem.errors import ConfigError, Finding, Level

MAX_FINDINGS: Final = 200
"""Maximum number of errors, and of warnings and notes, that are kept of one document."""


class Report:
    """The findings of one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._errors: dict[Finding, None] = {}
        self._warnings: dict[Finding, None] = {}
        self._error_paths: set[DocumentPath] = set()
        self._spoiled: set[DocumentPath] = set()

    @property
    def is_full(self) -> bool:
        """Whether further errors are not kept, so that wording them is a waste."""
        return len(self._errors) >= MAX_FINDINGS

    @property
    def has_errors(self) -> bool:
        """Whether anything is an error."""
        return bool(self._errors)

    def has_error_at(self, path: DocumentPath) -> bool:
        """Whether the value at `path` cannot be used."""
        return path in self._error_paths

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings and notes so far, by file and line."""
        return tuple(sorted(self._warnings, key=self._position))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding so far, by file and line."""
        return tuple(sorted([*self._errors, *self._warnings], key=self._position))

    def include(self, findings: Iterable[Finding]) -> None:
        """Take over the findings of another document, which this one includes."""
        for finding in findings:
            kept = self._errors if finding.level is Level.ERROR else self._warnings
            if len(kept) < MAX_FINDINGS:
                kept[finding] = None

    def place(self, path: DocumentPath) -> Place:
        """Return the place at a path."""
        return Place(location=path, path=path_text(path), line=self.document.line(path))

    def error(self, path: DocumentPath, message: str, rule: Rule = Rule.INVALID_VALUE) -> None:
        """Record that the value at `path` cannot be used."""
        if path not in self._spoiled and not self.is_full:
            self._errors[self._finding(path, message, Level.ERROR, rule)] = None
            self._error_paths.add(path)

    def spoil(self, path: DocumentPath, message: str) -> None:
        """Record that the placeholder at `path` has no usable value, so that further errors there are left out."""
        self.error(path, message, Rule.INVALID_PLACEHOLDER)
        self._spoiled.add(path)

    def warn(self, path: DocumentPath, message: str, rule: Rule, *, level: Level = Level.WARNING) -> None:
        """Record that something at `path` is probably not meant."""
        if len(self._warnings) < MAX_FINDINGS:
            self._warnings[self._finding(path, message, level, rule)] = None

    def raise_errors(self) -> None:
        """Raise every finding, by line, if one of them is an error.

        Raises:
            ConfigError: the document cannot be used.
        """
        if not self._errors:
            return
        findings = [*self.findings]
        if self.is_full:
            message = f"only the first {MAX_FINDINGS} errors are shown; correct these first"
            findings.append(Finding(message=message, rule=Rule.INVALID_FILE, file=self.document.origin))
        raise ConfigError(findings)

    def _finding(self, path: DocumentPath, message: str, level: Level, rule: Rule) -> Finding:
        line = self.document.line(path) if path else None
        return Finding(
            message=message, level=level, rule=rule, path=path_text(path), file=self.document.origin, line=line
        )

    def _position(self, finding: Finding) -> tuple[bool, str, int]:
        return finding.file != self.document.origin, finding.file, finding.line or 0
