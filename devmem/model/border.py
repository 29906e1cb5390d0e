"""The border: texts, metadata and names from outside in a form that every parser and every database can hold.

The classes of `devmem.model` call it when they are made, so that it holds for every way in: Python, workflows, the
command line, HTTP, MCP and imports. Nothing behind it meets a NUL character, half a surrogate pair, as of an emoji that
was cut in two, a number that JSON does not have, or a value that is nested without end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

REPLACEMENT: Final = "\ufffd"
"""Character that stands where a text had one that cannot be kept."""
MAX_LEVELS: Final = 64
"""Depth to which the values of a mapping may be nested, as in a workflow's YAML."""
_INTEGERS: Final = range(-(2**63), 2**63)


def is_fit(text: str) -> bool:
    """Whether a text can be kept unchanged."""
    if "\0" in text:
        return False
    try:
        # Of a text in ASCII this is a copy, some twenty times as fast as a search.
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean_text(text: str) -> str:
    """Return a text with U+FFFD for each NUL and each half of a surrogate pair; two halves in a row are a character."""
    if is_fit(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", REPLACEMENT)


def check_characters(name: str, value: str) -> None:
    """Refuse a value that tells things apart - an id, a key, a part of a scope - with a character that cannot be kept.

    Raises:
        ValueError: it holds such a character; with another one in its place, two names could become one.
    """
    if not is_fit(value):
        what = "the character NUL" if "\0" in value else "half a surrogate pair"
        raise ValueError(f"`{name}` {value!r:.60} holds {what}, which no name may; leave it out")


def clean_values(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a mapping of JSON values with clean texts, in its keys too.

    A value of a type that JSON does not have is left unchanged.

    Raises:
        ValueError: a value is nested more than `MAX_LEVELS` deep, an integer has more than 64 bits, or a number is not
            finite. The error says so of `name` and the key.
    """
    return {_clean_key(key): _clean(value, name, key, 1) for key, value in values.items()}


def clean_fields(one: object, *names: str) -> None:
    """Clean fields of a frozen instance that is being made: texts, and mappings of JSON values.

    Raises:
        ValueError: see `clean_values`.
    """
    for name in names:
        value = getattr(one, name)
        if isinstance(value, str):
            if not is_fit(value):
                object.__setattr__(one, name, clean_text(value))
        elif value:
            object.__setattr__(one, name, clean_values(name, value))


def _clean_key(key: object) -> Any:  # noqa: ANN401 - whatever was given, which a mapping's user refuses
    return clean_text(key) if isinstance(key, str) else key


def _clean(value: Any, name: str, key: object, level: int) -> Any:  # noqa: ANN401 - any value
    # The usual types first: every item that is read passes here.
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value not in _INTEGERS:
            raise ValueError(f"`{name}` {key!r} holds an integer of more than 64 bits; write it as text")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"`{name}` {key!r} holds {value}, which JSON does not have; leave it out, or write None")
        return value
    if level > MAX_LEVELS:
        raise ValueError(f"`{name}` {key!r} is nested too deeply: more than {MAX_LEVELS} levels")
    if isinstance(value, list | tuple):
        return [_clean(part, name, key, level + 1) for part in value]
    if isinstance(value, Mapping):
        return {_clean_key(each): _clean(part, name, key, level + 1) for each, part in value.items()}
    return value
