"""The variables that placeholders may name beside a document's own `vars`."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

from devmem.config.rules import Rule
from devmem.config.source import read_up_to
from devmem.errors import ConfigError, Finding

MAX_ENV_FILE_BYTES: Final = 64 * 1024
"""Largest `.env` file that is read, in bytes."""


class Environment:
    """Process environment first, then `.env` beside the workflow, then `.env` in the working directory.

    The files are read when a name is looked up that the process environment does not have; `os.environ` stays as it is.
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
