"""A document: its text, its plain values with the place of each, and what is wrong with them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from devmem.config.findings import Rule
from devmem.errors import ConfigError, Finding, Level

DocumentPath: TypeAlias = tuple[Any, ...]
"""Where a value stands: keys of mappings and 0-based indexes of lists, from the document's root."""

Plain: TypeAlias = Any
"""A value as YAML gives it: text, number, flag, date, None, or a list or mapping of such."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_SHOWN_KEY_CHARACTERS = 60


def path_text(path: DocumentPath) -> str:
    """Write a path the way messages do: `memory[1].config.file_sources[0].path`."""
    return "".join(_step_text(step) for step in path).removeprefix(".")


def _step_text(step: object) -> str:
    if isinstance(step, int) and not isinstance(step, bool):
        return f"[{step}]"
    text = str(step)
    if _PLAIN_KEY.fullmatch(text) and len(text) <= _SHOWN_KEY_CHARACTERS:
        return f".{text}"
    return f"[{json.dumps(text[:_SHOWN_KEY_CHARACTERS], ensure_ascii=False)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """Where a declaration stands; all empty when it was made in code."""

    location: DocumentPath = ()
    """Keys and indexes from the document's root, as `("graph", "memory", 0)`; `Workflow.require_resolved` takes it."""
    path: str = ""
    """The same as messages write it, as `graph.memory[0]`."""
    line: int | None = None
    """1-based."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """One parsed document. Its data is read and never changed; values that were aliased are shared, not copied."""

    data: dict[Any, Any]
    """The root mapping."""
    origin: str = ""
    """The file as the caller named it; empty when the text did not come from one."""
    lines: Mapping[int, Mapping[Hashable, int] | Sequence[int]] = field(default_factory=dict, repr=False)
    """For each container, by `id()`, the 1-based line of each of its keys or elements."""
    blank: Mapping[int, Collection[Hashable]] = field(default_factory=dict, repr=False)
    """For each mapping with keys after which nothing is written, by `id()`, these keys."""

    def line(self, path: DocumentPath) -> int:
        """Return the 1-based line of the value at `path`, or of the nearest value around it."""
        line, value = 1, self.data
        for step in path:
            if not holds(value, step):
                break
            line = self.lines[id(value)][step]
            value = value[step]
        return line

    def is_blank(self, path: DocumentPath) -> bool:
        """Whether `path` is that of a key after which nothing is written, not even `null`."""
        return bool(path) and path[-1] in self.blank.get(id(self.nearest(path[:-1])), ())

    def nearest(self, path: DocumentPath) -> object:
        """Return the value at `path` as it was written, or the nearest one around it."""
        value: Any = self.data
        for step in path:
            if not holds(value, step):
                break
            value = value[step]
        return value


def holds(container: object, step: object) -> bool:
    """Whether a mapping has the key, or a list the index, that a path's step is."""
    if isinstance(container, dict):
        return step in container
    return isinstance(container, list) and isinstance(step, int) and 0 <= step < len(container)


MAX_BYTES: Final = 1024 * 1024
"""Largest workflow file, in bytes (or characters, when text is given)."""

# What YAML calls printable; the parser would refuse the rest too, but without saying where.
_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(path: Path, origin: str) -> str:
    """Read a workflow file; UTF-8, or UTF-16 with a byte order mark.

    Raises:
        ConfigError: the file cannot be read, is too large, or is not text.
    """
    try:
        data = read_up_to(path, MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(origin, f"the file cannot be read: {error.strerror}") from error
    if data is None:
        raise _refusal(origin, _why_no_file(path))
    if len(data) > MAX_BYTES:
        raise _refusal(origin, _too_large("bytes"))
    return _decoded(data, origin)


def read_up_to(path: Path, count: int) -> bytes | None:
    """Return a file's first `count` bytes; None when there is no such file, or when it is a folder, pipe or device."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(count)


def checked_text(text: str, origin: str) -> str:
    """Return the text without its byte order mark, or refuse it.

    Raises:
        ConfigError: it is too long or holds control characters.
    """
    if len(text) > MAX_BYTES:
        raise _refusal(origin, _too_large("characters"))
    text = text.removeprefix("\ufeff")
    found = _UNPRINTABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise _refusal(origin, f"the character U+{ord(found.group()):04X} may not stand in a workflow file", line)
    return text


def _decoded(data: bytes, origin: str) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte {error.start} (0x{data[error.start]:02x}) is not {encoding.removesuffix('-sig').upper()}"
        message = f"{what}; save the file as UTF-8"
    raise _refusal(origin, message, line)


def _why_no_file(path: Path) -> str:
    if path.is_dir():
        return "this is a folder, not a workflow file"
    return "this is not a regular file" if path.exists() else "there is no such file"


def _too_large(unit: str) -> str:
    return f"the workflow is larger than {MAX_BYTES:,} {unit}"


def _refusal(origin: str, message: str, line: int | None = None) -> ConfigError:
    return ConfigError([Finding(message=message, rule=Rule.INVALID_FILE, file=origin, line=line)])


MAX_FINDINGS: Final = 200
"""Maximum number of errors, and of warnings and notes, that are kept of one document."""


class Report:
    """The findings of one document."""

    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self._errors: dict[Finding, None] = {}
        self._warnings: dict[Finding, None] = {}
        self._error_paths: set[DocumentPath] = set()
        self._spoiled: set[DocumentPath] = set()

    @property
    def is_full(self) -> bool:
        """Whether further errors are not kept, so that wording them is a waste."""
        return len(self._errors) >= MAX_FINDINGS

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

    def place(self, path: DocumentPath) -> SourcePosition:
        """Return the place at a path."""
        return SourcePosition(location=path, path=path_text(path), line=self.document.line(path))

    def add(self, path: DocumentPath, message: str, rule: Rule, level: Level) -> None:
        """Record a finding about the value at `path`."""
        if level is Level.ERROR:
            self.error(path, message, rule)
        else:
            self.warn(path, message, rule, level=level)

    def error(self, path: DocumentPath, message: str, rule: Rule = Rule.INVALID_VALUE) -> None:
        """Record that the value at `path` cannot be used."""
        if path not in self._spoiled and not self.is_full:
            self._errors[self._finding(path, message, Level.ERROR, rule)] = None
            # A closer look takes for an error what was a warning while reading.
            self._warnings = {
                one: None for one in self._warnings if (one.path, one.message) != (path_text(path), message)
            }
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
