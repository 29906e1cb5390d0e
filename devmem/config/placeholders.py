"""Puts the values of `${VAR}`, `${VAR:-default}` into a document; `$${VAR}` stands for the text `${VAR}`.

A name is looked up in the document's `vars`, then in the environment. A placeholder that makes up a whole value takes
over the type that its variable has in `vars`; from the environment everything is text. What is not set stays as
written and is listed, because only whoever needs the value can tell whether that is an error.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from devmem.config.compose import MAX_DEPTH, MAX_VALUES
from devmem.config.document import DocumentPath, Plain, read_up_to
from devmem.config.findings import Rule
from devmem.errors import ConfigError, Finding, PlaceholderError

MAX_ENV_FILE_BYTES: Final = 64 * 1024
"""Largest `.env` file that is read, in bytes."""


class Environment:
    """Process environment first, then `.env` beside the workflow, then `.env` in the working directory.

    The files are read when a name is looked up that the environment lacks; `os.environ` stays unchanged.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, *, folder: Path | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._folder = folder

    def get(self, name: str) -> str | None:
        """Return the variable's value, or None when nothing sets it.

        Raises:
            ConfigError: a `.env` file is there but cannot be read.
        """
        if name in self._environ:
            return self._environ[name]
        return self._from_files.get(name)

    @cached_property
    def _from_files(self) -> dict[str, str]:
        folders: list[Path] = [Path(), *([self._folder.resolve()] if self._folder else [])]
        values: dict[str, str] = {}
        for folder in dict.fromkeys(folders):  # the nearest comes last and wins
            values |= _env_file(folder / ".env")
        return values


def _env_file(path: Path) -> dict[str, str]:
    line: int | None = None
    try:
        data = read_up_to(path, MAX_ENV_FILE_BYTES + 1)
        if data is None:
            return {}
        # Imported here: most commands find no such file.
        from dotenv import dotenv_values

        if len(data) <= MAX_ENV_FILE_BYTES:
            values = dotenv_values(stream=io.StringIO(data.decode("utf-8-sig")), interpolate=False)
            return {name: value for name, value in values.items() if value is not None}
        message = f"the file is larger than {MAX_ENV_FILE_BYTES:,} bytes"
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        line, message = error.object.count(b"\n", 0, error.start) + 1, "the file is not UTF-8"
    # Not chained: the original error may carry the whole file.
    raise ConfigError([Finding(message=message, rule=Rule.INVALID_FILE, file=str(path), line=line)])


MAX_CHARACTERS: Final = 4 * 1024 * 1024
"""Maximum number of characters of one text with the values of its placeholders."""
_PLACEHOLDER: Final = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z0-9_]+)(?::-(?P<default>[^}]*))?\}")


class _Expanded(NamedTuple):
    value: Plain
    missing: tuple[str, ...] = ()
    """The variables in it that are not set."""
    size: int = 1
    """Number of values that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A value with a placeholder that nothing sets."""

    path: str
    """Where in the document, as messages write it."""
    location: DocumentPath
    """The same place as keys and indexes."""
    line: int
    """1-based."""
    names: tuple[str, ...]
    """The variables that are not set."""

    def finding(self, file: str) -> Finding:
        """Return the error that the value is needed; `file` is where it stands."""
        message = unset_message(self.names)
        return Finding(message=message, rule=Rule.UNSET_VARIABLE, path=self.path, file=file, line=self.line)


def unset_message(names: tuple[str, ...]) -> str:
    """Return the message that variables are not set, and where they could be."""
    what = f"the variable {names[0]} is" if len(names) == 1 else f"the variables {', '.join(names)} are"
    return f"{what} not set; set it under `vars`, in the environment or in a `.env` file beside the workflow"


def has_placeholder(value: object) -> bool:
    """Whether a value as written is a text with a placeholder in it."""
    return isinstance(value, str) and any(not found["escaped"] for found in _found(value))


def names_only(text: str) -> str:
    """Return the placeholders of a text without their defaults, and nothing else of it."""
    return " ".join(f"${{{found['name']}}}" for found in _found(text) if found["name"])


class Placeholders:
    """Expands the values of one document; remembers each variable, so that it is worked out once."""

    def __init__(
        self,
        variables: Mapping[str, Any],
        environment: Environment,
        on_error: Callable[[DocumentPath, str, Rule], None],
    ) -> None:
        """Make the expander; `on_error` hears where a placeholder could not be put in, whose text stays, and why."""
        self._variables, self._environment, self._on_error = variables, environment, on_error
        self._known: dict[str, _Expanded | PlaceholderError] = {}
        self._underway: list[str] = []
        self.missing: dict[DocumentPath, tuple[str, ...]] = {}
        """For each place with an unset variable, the names."""

    def expand(self, value: Plain, path: DocumentPath) -> Plain:
        """Return a copy of `value` with its placeholders replaced; `path` is where it stands in the document."""
        if isinstance(value, dict):
            return {key: self.expand(entry, (*path, key)) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.expand(entry, (*path, index)) for index, entry in enumerate(value)]
        try:
            result = self._expanded(value, len(path))
        except PlaceholderError as error:
            self._on_error(path, str(error), Rule.INVALID_PLACEHOLDER)
            return value
        if result.missing:
            self.missing[path] = result.missing
        return result.value

    def _expanded(self, value: Plain, depth: int) -> _Expanded:
        """Return a value, or what a variable holds, `depth` levels below the root of the document."""
        if isinstance(value, (dict, list)):
            # Only variables inside variables get that deep.
            if depth > MAX_DEPTH:
                raise PlaceholderError(f"with its placeholders, the document nests deeper than {MAX_DEPTH} levels")
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            parts = {key: self._expanded(entry, depth + 1) for key, entry in entries}
            size = 1 + sum(part.size for part in parts.values())
            if size > MAX_VALUES:
                raise PlaceholderError(f"placeholders bring in more than {MAX_VALUES:,} values")
            values = {key: part.value for key, part in parts.items()}
            names = dict.fromkeys(name for part in parts.values() for name in part.missing)
            return _Expanded(values if isinstance(value, dict) else list(values.values()), tuple(names), size)
        if not isinstance(value, str) or "${" not in value:
            return _Expanded(value)
        whole = _PLACEHOLDER.fullmatch(value.strip())
        if whole and not whole["escaped"]:
            return self._of(whole, depth)
        text, position = "", 0
        unset: dict[str, None] = {}
        for found in _found(value):
            part = _Expanded("${") if found["escaped"] else self._of(found, depth)
            text += value[position : found.start()] + _as_text(part.value, found["name"])
            unset.update(dict.fromkeys(part.missing))
            position = found.end()
            if len(text) > MAX_CHARACTERS:
                raise PlaceholderError(f"with its placeholders, the text is longer than {MAX_CHARACTERS:,} characters")
        return _Expanded(text + value[position:], tuple(unset))

    def _of(self, found: re.Match[str], depth: int) -> _Expanded:
        """Work out one placeholder; `:-` steps in for what is not set or empty, as in a shell."""
        name, default = found["name"], found["default"]
        if default is not None and "${" in default:
            raise PlaceholderError(f"the default of {name!r} holds another placeholder; give it a name under `vars`")
        result = self._variable(name, depth)
        if default is not None and (result is None or result.value in (None, "")):
            return _Expanded(default)
        return _Expanded(found[0], (name,)) if result is None else result

    def _variable(self, name: str, depth: int) -> _Expanded | None:
        if name not in self._variables or self._underway[-1:] == [name]:
            # `vars: {KEY: ${KEY}}` hands the environment's value on.
            text = self._environment.get(name)
            return None if text is None else _Expanded(text)
        if name in self._underway:
            cycle = [*self._underway[self._underway.index(name) :], name]
            raise PlaceholderError(f"these `vars` refer to one another in a circle: {' -> '.join(cycle)}")
        if depth > MAX_DEPTH:
            raise PlaceholderError(f"`vars` refer to one another through more than {MAX_DEPTH} steps")
        if name not in self._known:
            self._underway.append(name)
            try:
                self._known[name] = self._expanded(self._variables[name], depth + 1)
            except PlaceholderError as error:
                self._known[name] = error
            finally:
                self._underway.pop()
        known = self._known[name]
        if isinstance(known, PlaceholderError):
            raise PlaceholderError(str(known))
        return known


def _found(text: str) -> list[re.Match[str]]:
    # Without a closing brace after it no placeholder can match; looking further would cost quadratic time.
    return list(_PLACEHOLDER.finditer(text, 0, text.rfind("}") + 1)) if "${" in text else []


def _as_text(value: object, name: str | None) -> str:
    if isinstance(value, (dict, list)):
        kind = "mapping" if isinstance(value, dict) else "list"
        raise PlaceholderError(f"{name!r} is a {kind} and cannot be put into a text")
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
