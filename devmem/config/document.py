"""A document of plain values with the place of each, before it is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
class Document:
    """One parsed document. Its data is read and never changed; values that were aliased are shared, not copied."""

    data: dict[Any, Any]
    """The root mapping."""
    origin: str = ""
    """The file as the caller named it; empty when the text did not come from one."""
    lines: Mapping[int, Mapping[Hashable, int] | Sequence[int]] = field(default_factory=dict, repr=False)
    """For each container, by `id()`, the 1-based line of each of its keys or elements."""

    def line(self, path: DocumentPath) -> int:
        """Return the 1-based line of the value at `path`, or of the nearest value around it."""
        line, value = 1, self.data
        for step in path:
            if not holds(value, step):
                break
            line = self.lines[id(value)][step]
            value = value[step]
        return line

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
