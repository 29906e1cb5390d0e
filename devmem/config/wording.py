"""How messages about a workflow speak of values and of what is possible."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Iterable
from typing import Final

_SHOWN_CHARACTERS: Final = 60
_SHOWN_CHOICES: Final = 20
_COMPARED_CHOICES: Final = 200

_CREDENTIALS: Final = re.compile(r"(://[^/@\s:]*:)[^/@\s]*@")
_MASKED: Final = r"\1***@"


def found(value: object, *, secret: bool = False) -> str:
    """Describe the value found in a place; of a secret its kind only."""
    kind = _kind(value)
    if secret or not isinstance(value, (str, int, float, dt.date)):
        return kind
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return f"{kind} {value}"
    return f"{kind} {quoted(_CREDENTIALS.sub(_MASKED, value))}" if value else "empty text"


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "the text"
    if isinstance(value, bool):
        return "a flag"
    if isinstance(value, (int, float)):
        return "the number"
    if isinstance(value, dt.date):
        return "the date"
    if isinstance(value, dict):
        return "a mapping"
    return "a list"


def quoted(text: str) -> str:
    """Quote a text on one line, cut to a length that people read."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return repr(cut)


def choices(possible: Iterable[str]) -> str:
    """List what is possible, at most a screenful."""
    names = list(possible)
    shown = ", ".join(name[:_SHOWN_CHARACTERS] for name in names[:_SHOWN_CHOICES]) or "none"
    return shown if len(names) <= _SHOWN_CHOICES else f"{shown} and {len(names) - _SHOWN_CHOICES} more"


def closest(word: object, possible: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the name that `word` was probably meant to be, if there is one."""
    if not isinstance(word, str) or len(word) > _SHOWN_CHARACTERS:
        return None
    by_case = {name.lower(): name for name in list(possible)[:_COMPARED_CHOICES]}
    matches = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=cutoff)
    return by_case[matches[0]] if matches else None


def did_you_mean(word: object, possible: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or nothing when no name is near."""
    suggestion = closest(word, possible)
    return f"; did you mean {suggestion!r}?" if suggestion else "."
