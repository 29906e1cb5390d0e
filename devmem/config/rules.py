"""The checks that a workflow goes through, by the identifiers that findings carry."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


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
    SHARED_FILE = "shared-file", "Two stores keep their items in one file."
    MISSING_MODEL = "missing-model", "A provider that needs a model's name does not have one."
    MISSING_EXTRA = "missing-extra", "A package that the workflow needs is not installed."
    MISSING_FILE = "missing-file", "A file or folder that the workflow needs is not there."
