"""Regular expressions that are compiled when they are first used, so that importing a module costs no compilation.

Tables of them are files of `devmem/text/data`, one expression a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast


class _LazyPattern:
    """Stands for a pattern: the first use of a method compiles it and keeps the method."""

    def __init__(self, source: Callable[[], str], flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the pattern has
        value = getattr(re.compile(self._source(), self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(source: str, flags: int | re.RegexFlag = 0) -> re.Pattern[str]:
    """Return the pattern, to be used by its methods alone; an invalid one raises `re.error` at its first use."""
    return cast("re.Pattern[str]", _LazyPattern(lambda: source, int(flags)))


_DEFINITION: Final = lazy_pattern(r"([A-Z_]+) = (.+)")
_ENTRY: Final = lazy_pattern(r"([\w ]+): (.+)")
_PART: Final = lazy_pattern(r"\{([A-Z_]+)\}")


def read_patterns(name: str, **parts: str) -> dict[str, list[tuple[str, str]]]:
    """Return the labels and patterns of each section of a file, in its order.

    `[section]` begins a section, `label: pattern` is an entry, and `NAME = ...` defines what stands for `{NAME}` below.

    Args:
        name: of the file in `devmem/text/data`.
        parts: further definitions.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    entries: list[tuple[str, str]] = []
    for line in files("devmem.text").joinpath("data", name).read_text("utf-8").splitlines():
        if line.startswith("["):
            entries = found.setdefault(line.strip("[]"), [])
        elif (match := _DEFINITION.fullmatch(line) or _ENTRY.fullmatch(line)) and not line.startswith("#"):
            expanded = _PART.sub(lambda part: parts[part[1]], match[2])
            if match[1].isupper():
                parts[match[1]] = expanded
            else:
                entries.append((match[1], expanded))
    return found


def named_pattern(file: str, label: str, flags: int | re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """Return the pattern with a label in a file, which is read at its first use; see `lazy_pattern`."""
    return cast("re.Pattern[str]", _LazyPattern(lambda: _labelled(file)[label], int(flags)))


@cache
def _labelled(file: str) -> Mapping[str, str]:
    return {label: pattern for entries in read_patterns(file).values() for label, pattern in entries}
