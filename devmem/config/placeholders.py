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
from typing import Any, Final

from devmem.config.compose import MAX_DEPTH, MAX_VALUES
from devmem.config.document import DocumentPath, Plain, read_up_to
from devmem.config.findings import Rule
from devmem.errors import ConfigError, Finding

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
    try:
        data = read_up_to(path, MAX_ENV_FILE_BYTES + 1)
    except OSError as error:
        raise _refusal(path, f"the file cannot be read: {error.strerror}") from error
    if data is None:
        return {}
    if len(data) > MAX_ENV_FILE_BYTES:
        raise _refusal(path, f"the file is larger than {MAX_ENV_FILE_BYTES:,} bytes")
    # Imported here: most commands find no such file.
    from dotenv import dotenv_values

    values = dotenv_values(stream=io.StringIO(_decoded(data, path)), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    # Not chained: the original error carries the whole file.
    raise _refusal(path, "the file is not UTF-8", line)


def _refusal(path: Path, message: str, line: int | None = None) -> ConfigError:
    return ConfigError([Finding(message=message, rule=Rule.INVALID_FILE, file=str(path), line=line)])


MAX_CHARACTERS: Final = 4 * 1024 * 1024
"""How much text all placeholders of a document may bring in together, in characters."""
MAX_STEPS: Final = 32
"""Through how many others a variable may refer to its value."""

_PLACEHOLDER: Final = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z0-9_]+)(?::-(?P<default>[^}]*))?\}")


class PlaceholderError(ValueError):
    """A placeholder whose value cannot be put in: a cycle, a list inside a text, too much text."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """An expanded value, with what it takes to know that it stays within the limits."""

    value: Any
    missing: tuple[str, ...] = ()
    size: int = 1
    height: int = 0


def has_placeholder(value: object) -> bool:
    """Whether a value as written is a text with a placeholder in it."""
    return isinstance(value, str) and any(not found["escaped"] for found in _found(value))


def names_only(text: str) -> str:
    """Return the placeholders of a text without their defaults, and nothing else of it."""
    return " ".join(f"${{{found['name']}}}" for found in _found(text) if found["name"])


class Placeholders:
    """Expands the values of one document; remembers each variable, so that it is worked out once."""

    def __init__(
        self, variables: Mapping[str, Any], environment: Environment, on_error: Callable[[DocumentPath, str], None]
    ) -> None:
        """Make the expander; `on_error` hears where a placeholder could not be put in, whose text stays, and why."""
        self._variables, self._environment, self._on_error = variables, environment, on_error
        self._known: dict[str, _Value | PlaceholderError] = {}
        self._underway: list[str] = []
        self._level = 0
        self._values = self._characters = 0
        self.missing: dict[DocumentPath, tuple[str, ...]] = {}
        """For each place with an unset variable, the names."""

    def expand(self, value: Plain, path: DocumentPath) -> Plain:
        """Return a copy of `value` with its placeholders replaced; `path` is where it stands in the document."""
        return self._expanded(value, path).value

    def _expanded(self, value: Plain, path: DocumentPath) -> _Value:
        if isinstance(value, (dict, list)):
            self._level += 1
            try:
                return self._expanded_container(value, path)
            finally:
                self._level -= 1
        if not isinstance(value, str) or "${" not in value:
            return _Value(value=value)
        return self._expanded_text(value, path)

    def _expanded_container(self, value: dict[Any, Any] | list[Any], path: DocumentPath) -> _Value:
        if self._level > MAX_DEPTH:  # only variables inside variables get here, and each level costs stack
            raise _too_deep()
        if isinstance(value, dict):
            entries = {key: self._expanded(entry, (*path, key)) for key, entry in value.items()}
            return _container({key: entry.value for key, entry in entries.items()}, list(entries.values()))
        elements = [self._expanded(element, (*path, index)) for index, element in enumerate(value)]
        return _container([element.value for element in elements], elements)

    def _expanded_text(self, text: str, path: DocumentPath) -> _Value:
        if self._underway:  # inside a variable: whoever uses it reports
            return self._substituted(text)
        try:
            result = self._substituted(text)
            self._check_depth(result, len(path))
        except PlaceholderError as error:
            self._on_error(path, str(error))
            return _Value(value=text)
        if result.missing:
            self.missing[path] = result.missing
        return result

    def _substituted(self, text: str) -> _Value:
        whole = _PLACEHOLDER.fullmatch(text.strip())
        if whole and not whole["escaped"]:
            return self._of(whole)
        parts: list[str] = []
        missing: dict[str, None] = {}
        position = 0
        for found in _found(text):
            result = _Value(value="${") if found["escaped"] else self._of(found)
            parts += (text[position : found.start()], _as_text(result.value, found["name"]))
            missing |= dict.fromkeys(result.missing)
            position = found.end()
        return _Value(value="".join([*parts, text[position:]]), missing=tuple(missing))

    def _of(self, found: re.Match[str]) -> _Value:
        """Work out one placeholder; `:-` steps in for what is not set or empty, as in a shell."""
        name, default = found["name"], found["default"]
        if default is not None and "${" in default:
            raise PlaceholderError(f"the default of {name!r} holds another placeholder; give it a name under `vars`")
        result = self._variable(name)
        if default is not None and (result is None or result.value in (None, "")):
            return _Value(value=default)
        if result is None:
            return _Value(value=found[0], missing=(name,))
        self._count(result)
        return result

    def _variable(self, name: str) -> _Value | None:
        if name not in self._variables or self._underway[-1:] == [name]:
            # `vars: {KEY: ${KEY}}` hands the environment's value on.
            text = self._environment.get(name)
            return None if text is None else _Value(value=text)
        if name not in self._known:
            try:
                self._known[name] = self._worked_out(name)
            except PlaceholderError as error:
                self._known[name] = error
        known = self._known[name]
        if isinstance(known, PlaceholderError):
            raise PlaceholderError(str(known))
        return known

    def _worked_out(self, name: str) -> _Value:
        if name in self._underway:
            cycle = [*self._underway[self._underway.index(name) :], name]
            raise PlaceholderError(f"these `vars` refer to one another in a circle: {' -> '.join(cycle)}")
        if len(self._underway) >= MAX_STEPS:
            raise PlaceholderError(f"`vars` refer to one another through more than {MAX_STEPS} steps")
        self._underway.append(name)
        try:
            return self._expanded(self._variables[name], ("vars", name))
        finally:
            self._underway.pop()

    def _count(self, result: _Value) -> None:
        self._values += result.size
        self._characters += len(result.value) if isinstance(result.value, str) else 0
        if self._values > MAX_VALUES:
            raise PlaceholderError(f"placeholders bring in more than {MAX_VALUES:,} values")
        if self._characters > MAX_CHARACTERS:
            raise PlaceholderError(f"placeholders bring in more than {MAX_CHARACTERS:,} characters")

    def _check_depth(self, result: _Value, depth: int) -> None:
        if depth + result.height > MAX_DEPTH:
            raise _too_deep()


def _too_deep() -> PlaceholderError:
    return PlaceholderError(f"with its placeholders, the document nests deeper than {MAX_DEPTH} levels")


def _found(text: str) -> list[re.Match[str]]:
    # Without a closing brace after it no placeholder can match; looking further would cost quadratic time.
    return list(_PLACEHOLDER.finditer(text, 0, text.rfind("}") + 1)) if "${" in text else []


def _container(value: Plain, parts: list[_Value]) -> _Value:
    return _Value(
        value=value,
        missing=tuple(dict.fromkeys(name for part in parts for name in part.missing)),
        size=1 + sum(part.size for part in parts),
        height=1 + max((part.height for part in parts), default=0),
    )


def _as_text(value: object, name: str | None) -> str:
    if isinstance(value, (dict, list)):
        raise PlaceholderError(
            f"{name!r} is a {'mapping' if isinstance(value, dict) else 'list'} and cannot be put into a text"
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
