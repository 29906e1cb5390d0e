"""LangGraph's paths of fields as those of devmem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from devmem.stores import texts_at

_CHOICE: Final = re.compile(r"\{([^{}]*)\}")


def field_paths(value: Mapping[str, Any], fields: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that LangGraph's mean: `{a,b}` is one for each of its fields, and `*` any key of the value."""
    return tuple(dict.fromkeys(path for field in fields for each in _choices(field) for path in _named(value, each)))


def field_texts(value: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    """Return the texts of a value's fields, in their order."""
    return [found.text for path in paths for found in texts_at(value, path)]


def _choices(field: str) -> Iterator[str]:
    found = _CHOICE.search(field)
    if found is None:
        yield field
        return
    for one in found[1].split(","):
        yield from _choices(
            f"{field[: found.start()]}.{one.strip()}{field[found.end() :]}".lstrip(".").replace("..", ".")
        )


def _named(value: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield a path with each key of the value in the place of a star in front: the item has more keys."""
    first, period, rest = path.partition(".")
    if first != "*":
        yield path
        return
    yield from (f"{key}{period}{rest}" for key in value)
