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
    text = ""
    for step in path:
        key = str(step)
        if isinstance(step, int) and not isinstance(step, bool):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(key) and len(key) <= _SHOWN_KEY_CHARACTERS:
            text += f".{key}"
        else:
            text += f"[{json.dumps(key[:_SHOWN_KEY_CHARACTERS], ensure_ascii=False)}]"
    return text.removeprefix(".")


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
    blank: Collection[tuple[int, Hashable]] = field(default=(), repr=False)
    """Keys after which nothing is written, not even `null`, each with the `id()` of its mapping."""

    def nearest(self, path: DocumentPath) -> tuple[Plain, int]:
        """Return the value at `path` as it was written, or the nearest one around it, and its 1-based line."""
        line, value = 1, self.data
        for step in path:
            if not holds(value, step):
                break
            line = self.lines[id(value)][step]
            value = value[step]
        return value, line

    def is_blank(self, path: DocumentPath) -> bool:
        """Whether `path` is that of a key after which nothing is written, not even `null`."""
        return (id(self.nearest(path[:-1])[0]), path[-1]) in self.blank


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
    line: int | None = None
    try:
        data = read_up_to(path, MAX_BYTES + 1)
        if data is None:
            kind = "this is not a regular file" if path.exists() else "there is no such file"
            message = "this is a folder, not a workflow file" if path.is_dir() else kind
        elif len(data) > MAX_BYTES:
            message = f"the workflow is larger than {MAX_BYTES:,} bytes"
        else:
            encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
            return data.decode(encoding)
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"byte {error.start} (0x{error.object[error.start]:02x}) is not {error.encoding.upper()}"
        message += "; save the file as UTF-8"
    # Not chained: the original error may carry the whole file.
    raise _refusal(origin, message, line)


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
        raise _refusal(origin, f"the workflow is larger than {MAX_BYTES:,} characters")
    text = text.removeprefix("\ufeff")
    if found := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise _refusal(origin, f"the character U+{ord(found.group()):04X} may not stand in a workflow file", line)
    return text


def _refusal(origin: str, message: str, line: int | None = None) -> ConfigError:
    return ConfigError([Finding(message=message, rule=Rule.INVALID_FILE, file=origin, line=line)])


MAX_FINDINGS: Final = 200
"""Maximum number of errors, and of warnings and notes, that are kept of one document."""


class Report:
    """The findings of one document."""

    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self.in_graph: Collection[str] = ()
        """Parts that stand under `graph`, as in DevAll's documents; paths leave that step out."""
        self._errors: dict[DocumentPath, Finding] = {}
        """The first error about each value; a second one mostly follows from it."""
        self._included: list[Finding] = []
        self._warnings: dict[Finding, None] = {}

    def has_error_at(self, path: DocumentPath) -> bool:
        """Whether the value at `path` cannot be used."""
        return path in self._errors

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings and notes so far, by file and line."""
        return tuple(one for one in self.findings if one.level is not Level.ERROR)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding so far, by file and line."""
        found = dict.fromkeys([*self._errors.values(), *self._included, *self._warnings])
        own = self.document.origin
        return tuple(sorted(found, key=lambda one: (one.file != own, one.file, one.line or 0)))

    def include(self, findings: Iterable[Finding]) -> None:
        """Take over the findings of another document, which this one includes."""
        self._included += findings

    def place(self, path: DocumentPath) -> SourcePosition:
        """Return the place at a path."""
        location = ("graph", *path) if path and path[0] in self.in_graph else path
        return SourcePosition(location=location, path=path_text(location), line=self.document.nearest(location)[1])

    def written(self, path: DocumentPath) -> Plain:
        """Return the value at `path` as it was written, or the nearest one around it."""
        return self.document.nearest(self.place(path).location)[0]

    def is_blank(self, path: DocumentPath) -> bool:
        """Whether `path` is that of a key after which nothing is written, not even `null`."""
        return self.document.is_blank(self.place(path).location)

    def error(self, path: DocumentPath, message: str, rule: Rule = Rule.INVALID_VALUE) -> None:
        """Record that the value at `path` cannot be used."""
        if path not in self._errors and len(self._errors) < MAX_FINDINGS:
            self._errors[path] = self._finding(path, message, Level.ERROR, rule)

    def warn(self, path: DocumentPath, message: str, rule: Rule, *, level: Level = Level.WARNING) -> None:
        """Record that something at `path` is probably not meant."""
        if len(self._warnings) < MAX_FINDINGS:
            self._warnings[self._finding(path, message, level, rule)] = None

    def raise_errors(self) -> None:
        """Raise every finding, by line, if one of them is an error.

        Raises:
            ConfigError: the document cannot be used.
        """
        findings = [*self.findings]
        if not any(one.level is Level.ERROR for one in findings):
            return
        if len(self._errors) == MAX_FINDINGS:
            message = f"only the first {MAX_FINDINGS} errors are shown; correct these first"
            findings.append(Finding(message=message, rule=Rule.INVALID_FILE, file=self.document.origin))
        raise ConfigError(findings)

    def _finding(self, path: DocumentPath, message: str, level: Level, rule: Rule) -> Finding:
        place = self.place(path)
        line = place.line if path else None
        return Finding(message=message, level=level, rule=rule, path=place.path, file=self.document.origin, line=line)
