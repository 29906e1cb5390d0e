"""Paths into JSON values, such as `title`, `author.name`, `chapters[*].content`, and the texts that they lead to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from devmem.model.items import MemoryItem

Step: TypeAlias = str | int | None
"""A key, an index (from the end where it is negative), or None for every value of a list or a mapping."""

_STEP: Final = re.compile(r"\[(?P<index>-?\d+)\]|\[(?P<every>\*)\]|(?P<key>[^.\[\]]+)")
_PATH: Final = re.compile(r"(?:\[(?:-?\d+|\*)\]|[^.\[\]]+)(?:\[(?:-?\d+|\*)\]|\.[^.\[\]]+)*")


@dataclass(frozen=True, slots=True)
class FieldText:
    """A text of a JSON value, and where it stands."""

    path: str
    """Path of this one text, without wildcards: `chapters[2].content`."""
    text: str


def is_path(path: str) -> bool:
    """Whether a text is a path: keys with periods between them, `[N]` or `[*]` for elements of lists, `*` for any."""
    return _PATH.fullmatch(path) is not None


def texts_at(value: Mapping[str, object], path: str) -> Iterator[FieldText]:
    """Yield the texts that a path leads to, without blank ones; a key that is written like the path comes first.

    Numbers and flags are texts too, and of a list or a mapping all texts in it are one, a line each.
    """
    if path in value:
        found: Iterator[tuple[str, object]] = iter([(path, value[path])])
    else:
        found = _walk(value, _steps(path), "")
    for where, leaf in found:
        text = "\n".join(_lines(leaf))
        if text.strip():
            yield FieldText(where, text.strip())


@lru_cache(maxsize=1_024)
def _steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path; an invalid path has none."""
    if not is_path(path):
        return ()
    return tuple(
        int(step["index"]) if step["index"] else None if step["every"] or step["key"] == "*" else step["key"]
        for step in _STEP.finditer(path)
    )


def _walk(node: object, steps: Sequence[Step], path: str) -> Iterator[tuple[str, object]]:
    """Yield the values that steps lead to, each with its path."""
    if not steps:
        if path:
            yield path, node
        return
    first, *rest = steps
    for step, child in _children(node, first):
        named = f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}" if path else step
        yield from _walk(child, rest, named)


def _children(node: object, step: Step) -> Iterator[tuple[str | int, object]]:
    if isinstance(node, Mapping) and not isinstance(step, int):
        keys = node.keys() if step is None else [step] if step in node else []
        yield from ((str(key), node[key]) for key in keys)
    elif isinstance(node, list | tuple) and not isinstance(step, str):
        places = range(len(node)) if step is None else [step if step >= 0 else len(node) + step]
        yield from ((place, node[place]) for place in places if 0 <= place < len(node))


def _lines(leaf: object) -> Iterator[str]:
    if isinstance(leaf, str):
        yield leaf
    elif isinstance(leaf, Mapping):
        for each in leaf.values():
            yield from _lines(each)
    elif isinstance(leaf, list | tuple):
        for each in leaf:
            yield from _lines(each)
    elif leaf is not None:
        yield str(leaf)


def field_texts(item: MemoryItem) -> list[FieldText]:
    """Return the texts of an item's indexed fields, in their order; one that occurs again is left out."""
    found: dict[str, FieldText] = {}
    for path in item.indexed_fields or ():
        for each in texts_at(item.metadata, path):
            found.setdefault(each.text, each)
    return list(found.values())


def embedded_hash(item: MemoryItem) -> str:
    """Return the SHA-256 of what is embedded, as 64 hex digits: the content's, unless texts of fields add to it."""
    texts = field_texts(item)
    if not texts:
        return item.content_hash
    digest = hashlib.sha256(item.content_hash.encode())
    for each in texts:
        digest.update(b"\x00field\x00" + each.text.encode())
    return digest.hexdigest()
