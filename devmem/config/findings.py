"""The identifiers of rules, and the words of their findings."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Self


class Rule(StrEnum):
    """Identifier of a check, for filters and for reports that machines read; each has a line of description."""

    description: str

    def __new__(cls, identifier: str, description: str) -> Self:
        """Make a member that is its identifier and knows its description."""
        member = str.__new__(cls, identifier)
        member._value_ = identifier
        member.description = description
        return member

    INVALID_FILE = "invalid-file", "The file cannot be read, or is not a YAML mapping within the limits."
    INVALID_VALUE = "invalid-value", "A key is missing, or its value has the wrong type or is out of bounds."
    UNKNOWN_KEY = "unknown-key", "A key that nothing reads."
    MISPLACED_KEY = "misplaced-key", "A key that is read elsewhere in the document."
    UNKNOWN_NAME = "unknown-name", "A store, node, type or provider of this name does not exist."
    DUPLICATE_NAME = "duplicate-name", "Two declarations have the same name."
    UNSET_VARIABLE = "unset-variable", "A placeholder names a variable that nothing sets."
    INVALID_PLACEHOLDER = "invalid-placeholder", "A placeholder whose value cannot be put in."
    NO_EFFECT = "no-effect", "A setting that changes nothing as it stands."
    NOT_SUPPORTED = "not-supported", "A part of the workflow that devmem does not carry out."
    CYCLE = "cycle", "Edges that lead in a circle."
    UNUSED_STORE = "unused-store", "A store that no agent attaches."
    NEVER_READ = "never-read", "A store that is written and never read."
    NEVER_WRITTEN = "never-written", "A store that is read and never written."
    READ_BY_ALL = "read-by-all", "A store whose writers reach every agent."
    SHARED_FILE = "shared-file", "Two stores keep their items in one file."
    NOT_RECORDED = "not-recorded", "A rule needs to know what agents were shown, and it is not recorded."
    PLAIN_FILE = "plain-file", "A file that would be left plain beside the encrypted ones of a store."
    MISSING_MODEL = "missing-model", "A provider that needs a model's name does not have one."
    BROKEN_PLUGIN = "broken-plugin", "The code of a store type that is not devmem's fails."
    MISSING_EXTRA = "missing-extra", "A package that the workflow needs is not installed."
    UNWRITABLE_FILE = "unwritable-file", "A file of a store that cannot be written."
    MISSING_FILE = "missing-file", "A file or folder that the workflow needs is not there."


_SHOWN_CHARACTERS: Final = 60
_SHOWN_CHOICES: Final = 20
_COMPARED_CHOICES: Final = 200

_CREDENTIALS: Final = re.compile(r"(://[^/@\s:]*:)[^/@\s]*@")
_MASKED: Final = r"\1***@"


def found(value: object, *, secret: bool = False) -> str:
    """Describe the value found in a place; of a secret its kind only."""
    if isinstance(value, bool):
        return "a flag" if secret else str(value).lower()
    kinds = {type(None): "nothing", str: "the text", int: "the number", float: "the number", dict: "a mapping"}
    kind = "the date" if isinstance(value, dt.date) else kinds.get(type(value), "a list")
    if secret or not isinstance(value, (str, int, float, dt.date)):
        return kind
    if not isinstance(value, str):
        return f"{kind} {value}"
    return f"{kind} {quoted(_CREDENTIALS.sub(_MASKED, value))}" if value else "empty text"


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
