"""Tables, CSV and TSV: each row an item, whose columns are named as the keys of a record are, or mapped to them."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from devmem.errors import DataFileError
from devmem.transfer.importing.records import Origin, Record, read_record

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text", "content", "memory", "message", "body", "note", "summary"),
    "speaker": ("speaker", "role", "author", "sender", "from"),
    "time": ("time", "event_time", "timestamp", "date", "created_at"),
    "id": ("id",),
    "user": ("user", "user_id"),
    "agent": ("agent", "agent_id"),
    "session": ("session", "session_id"),
    "conversation": ("conversation", "conversation_id"),
    "expires_at": ("expires_at",),
    "ttl": ("ttl",),
}
"""Keys of a record, and the names of columns that are taken for them; other columns are metadata."""
_LOG: Final = logging.getLogger(__name__)
_LARGEST_FIELD: Final = 10_000_000
"""Characters of a field."""


def read_table(
    lines: Iterable[str], origin: Origin, *, delimiter: str | None, columns: Mapping[str, str]
) -> Iterator[Record]:
    """Yield an item for each row below the first, which names the columns.

    Args:
        lines: the lines of the file with their ends.
        origin: the file.
        delimiter: None takes the one that the first line has most of: comma, semicolon or tab.
        columns: names of columns by the keys of a record, where they are not the usual ones.

    Raises:
        DataFileError: there is no column with texts, a column is missing, or a row is longer than the first one.
    """
    iterator = iter(lines)
    first = next(iterator, "")
    delimiter = delimiter or max(",;\t", key=first.count)
    csv.field_size_limit(_LARGEST_FIELD)
    rows = csv.reader(_with_first(first, iterator), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(rows, [])]
        keys = _keys_of(names, columns, origin)
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) > keys["text"] and row[keys["text"]].strip():
                yield _record(row, names, keys, Origin(path=origin.path, line=rows.line_num))
            else:
                _LOG.warning("%s:%d: the row has no text and is left out", origin.path, rows.line_num)
    except csv.Error as error:
        raise DataFileError(origin.path, f"the table cannot be read: {error}", line=rows.line_num) from error


def _with_first(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _keys_of(names: list[str], columns: Mapping[str, str], origin: Origin) -> dict[str, int]:
    """Return the positions of the columns by the keys that they stand for."""
    lower = [name.lower() for name in names]
    found: dict[str, int] = {}
    for key, usual in KEYS.items():
        if key in columns:
            if columns[key] not in names:
                raise origin.error(f"there is no column {columns[key]!r}; the first line has {_shown(names)}")
            found[key] = names.index(columns[key])
        else:
            position = next((lower.index(name) for name in usual if name in lower), None)
            if position is not None and position not in found.values():
                found[key] = position
    if "text" not in found:
        raise origin.error(
            f"no column is named {' or '.join(KEYS['text'])}; name it, the first line has {_shown(names)}"
        )
    return found


def _record(row: list[str], names: list[str], keys: Mapping[str, int], origin: Origin) -> Record:
    if len(row) > len(names):
        raise origin.error(f"the row has {len(row)} fields, and the first line names {len(names)} columns")
    raw: dict[str, object] = {key: row[at].strip() for key, at in keys.items() if at < len(row) and row[at].strip()}
    used = set(keys.values())
    rest = {names[at]: cell for at, cell in enumerate(row) if at not in used and cell.strip() and names[at]}
    return read_record({**raw, "metadata": rest}, origin)


def _shown(names: list[str]) -> str:
    return ", ".join(map(repr, names[:20])) or "nothing"
