"""Records, of CSV and JSON lines alike: each becomes a section `key: value`, a line a field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from devmem_stores.file.chunks import Section


def record_section(fields: Iterable[tuple[str, str]], first: int, last: int) -> Section | None:
    """Make the section of a record that stands on the lines `first` to `last`; None when all its fields are blank."""
    filled = [(name.strip(), value.strip()) for name, value in fields if value.strip()]
    text = "\n".join(f"{name}: {value}" if name else value for name, value in filled)
    if not text:
        return None
    # Its text is not the file's, so each of its lines stands for the whole record.
    return Section(text=text, numbers=[first] * (text.count("\n") + 1), last=last)


def flat(value: object) -> list[tuple[str, str]]:
    """Return the fields of a JSON value; nested values are written as JSON."""
    if not isinstance(value, Mapping):
        return [("", _written(value))]
    return [(str(key), _written(part)) for key, part in value.items()]


def _written(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
