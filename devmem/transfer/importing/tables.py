"""Tables, CSV and TSV: each row an item, whose columns are named as the keys of a record are, or mapped to them."""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from devmem.errors import DateOrderError
from devmem.model.fields import is_path
from devmem.model.items import MemoryItem
from devmem.model.times import (
    DateOrder,
    is_clock,
    is_no_time,
    numeric_date,
)
from devmem.transfer.importing.files import FileReader
from devmem.transfer.importing.records import Position, Record, RecordIds, read_each, read_record

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": tuple(
        """text content memory message body note summary notes comment description nachricht inhalt notiz notizen
        bemerkung beschreibung kommentar mitteilung eintrag""".split()
    ),
    "speaker": tuple("speaker role author sender from sprecher absender von autor verfasser".split()),
    "time": tuple(
        """time event_time timestamp date created_at datetime sent_at zeitpunkt zeitstempel datum zeit erstellt_am
        gesendet_am""".split()
    ),
    "id": ("id",),
    "user": ("user", "user_id", "benutzer", "nutzer"),
    "agent": ("agent", "agent_id"),
    "session": ("session", "session_id", "sitzung"),
    "conversation": ("conversation", "conversation_id", "gespräch", "unterhaltung"),
    "expires_at": ("expires_at", "gültig_bis"),
    "ttl": ("ttl",),
}
"""Keys of a record, and the names of columns that are taken for them, in lower case with `_` for blanks and hyphens;
other columns are metadata."""
NO_COLUMN: Final = "none"
"""Name that stands for no column in `--column time=none`."""
_TITLES: Final = frozenset("title subject titel betreff thema überschrift heading".split())
"""Columns that begin a text that is built from several."""
_DATES: Final = ("date", "datum", "day", "tag")
_CLOCKS: Final = ("time", "uhrzeit", "zeit", "clock")
_UNTIL: Final = frozenset({"bis", "to_date", "until"})
"""Columns beside which `Von` and `From` are the start of a time and not a sender."""
_MIDNIGHT: Final = re.compile(r"[ T]00:00(?::00(?:\.0+)?)?$")
_WORD: Final = re.compile(r"[^\W\d_]{2}")
_NO_WORDS: Final = re.compile(r"[0-9a-fA-F-]{16,}|\w+://\S*|true|false|yes|no|ja|nein|none|null|nan|n/a", re.IGNORECASE)
_NAMED_DELIMITER: Final = re.compile(r"\W?sep=(.)\W*$", re.IGNORECASE)
_LOG: Final = logging.getLogger(__name__)
_LARGEST_FIELD: Final = 10_000_000
"""Characters of a field."""


def read_table(
    source: FileReader, origin: Position, delimiter: str | None, columns: Mapping[str, str]
) -> Iterator[Record]:
    """Yield an item for each row below the first, which names the columns.

    Where no column holds texts, the text of a row is built from all columns with words; else these are searched too.

    Args:
        source: the file, which is read twice.
        origin: its position.
        delimiter: None takes the one that the first line names or has most of: comma, semicolon or tab.
        columns: names of columns by the keys of a record, where they are not the usual ones; `none` for no column.

    Raises:
        DataFileError: no column has words, or a column is missing.
        DateOrderError: day and month of the dates cannot be told apart.
    """
    layout = _layout(_CsvTable(source, delimiter), columns, origin)
    table, ids = _CsvTable(source, delimiter), RecordIds()

    def records(row: list[str], here: Position) -> Iterator[Record]:
        if len(row) > len(table.names):
            raise here.error(f"the row has {len(row)} fields, and the first line names {len(table.names)} columns")
        try:
            record = _record(row, table.names, layout, here, ids)
        except DateOrderError as error:
            if origin.dates is not None:
                raise
            # The order is that of most rows, and not of this one.
            raise here.error(error.message) from error
        if record is None:
            _LOG.warning("%s:%d: the row has no text and is left out", origin.path, table.line)
        else:
            yield record

    yield from read_each(((row, replace(origin, dates=layout.order, line=table.line)) for row in table.rows()), records)


class _CsvTable:
    """The rows of a table, with the names of its columns."""

    def __init__(self, source: FileReader, delimiter: str | None) -> None:
        csv.field_size_limit(_LARGEST_FIELD)
        iterator = source.text_lines()
        first = next(iterator, "")
        self._skipped = 0
        if named := _NAMED_DELIMITER.fullmatch(first.strip("\r\n")):
            # Excel writes it above the table.
            delimiter, first, self._skipped = named[1], next(iterator, ""), 1
        self._source = source
        delimiter = delimiter or max(",;\t", key=first.count)
        self._rows = csv.reader(chain([first], iterator), delimiter=delimiter, strict=True)
        self.names = [name.strip() for name in next(self._checked(), [])]

    @property
    def line(self) -> int:
        """Number of the last line of the last row, 1-based."""
        return self._rows.line_num + self._skipped

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows that are not blank; raises `DataFileError` where the table is malformed."""
        return (row for row in self._checked() if any(cell.strip() for cell in row))

    def _checked(self) -> Iterator[list[str]]:
        try:
            for row in self._rows:
                yield [cell.replace("\0", "") for cell in row]
        except csv.Error as error:
            raise self._source.error(f"the table cannot be read: {error}", line=self.line) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnLayout:
    """The meaning of the columns of a table."""

    keys: Mapping[str, int]
    """Positions by the keys of a record, and by `clock` that of a time of the day, which stands beside a date."""
    wordy: tuple[int, ...]
    """Positions of the other columns with words: first those of titles."""
    order: DateOrder | None
    """Order of day and month."""


def _layout(table: _CsvTable, columns: Mapping[str, str], origin: Position) -> _ColumnLayout:
    keys = _keys_of(table.names, columns, origin)
    wordy: set[int] = set()
    certain: Counter[DateOrder] = Counter()
    ambiguous: tuple[int, str] | None = None
    for row in table.rows():
        wordy.update(at for at, cell in enumerate(row) if at not in wordy and _has_words(cell))
        if (time := keys.get("time")) is not None and time < len(row) and (date := numeric_date(row[time])):
            if len(orders := date.orders()) == 1:
                certain.update(orders)
            elif not date.means_one_day():
                ambiguous = ambiguous or (table.line, row[time].strip())
    others = [at for at in sorted(wordy.difference(keys.values())) if at < len(table.names) and table.names[at]]
    if "text" not in keys and not others:
        raise origin.error(
            f"no column is named {' or '.join(KEYS['text'][:7])}, and none has words; name it (--column text=NAME), "
            f"the first line has {_shown(table.names)}"
        )
    order = origin.dates or next((one for one, _ in certain.most_common(1)), None)
    if order is None and ambiguous is not None:
        replace(origin, line=ambiguous[0]).time("time", ambiguous[1])
    titles_first = sorted(others, key=lambda at: _normal(table.names[at]) not in _TITLES)
    return _ColumnLayout(keys=keys, wordy=tuple(titles_first), order=order)


def _keys_of(names: list[str], columns: Mapping[str, str], origin: Position) -> dict[str, int]:
    """Return the positions of the columns by the keys that they stand for, and that of a clock beside a date."""
    normal = [_normal(name) for name in names]
    ranges = not _UNTIL.isdisjoint(normal)
    found: dict[str, int] = {}
    for key, usual in KEYS.items():
        if key in columns:
            if columns[key] in names:
                found[key] = names.index(columns[key])
            elif columns[key].lower() != NO_COLUMN:
                raise origin.error(f"there is no column {columns[key]!r}; the first line has {_shown(names)}")
            continue
        allowed = [name for name in usual if not (ranges and name in ("von", "from"))]
        position = next((normal.index(name) for name in allowed if name in normal), None)
        if position is not None and position not in found.values():
            found[key] = position
    if "time" in columns or "time" not in found:
        return found
    date, clock = (next((normal.index(name) for name in kind if name in normal), None) for kind in (_DATES, _CLOCKS))
    if date is None or clock is None or {date, clock} & {at for key, at in found.items() if key != "time"}:
        return found
    return {**found, "time": date, "clock": clock}


def _normal(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip(" :").lower())


def _has_words(cell: str) -> bool:
    return _WORD.search(cell) is not None and _NO_WORDS.fullmatch(cell.strip()) is None


def _record(row: list[str], names: list[str], layout: _ColumnLayout, origin: Position, ids: RecordIds) -> Record | None:
    """Return the item of a row; None where it has no text."""
    raw: dict[str, object] = {
        key: row[at].strip() for key, at in layout.keys.items() if at < len(row) and row[at].strip() and key != "clock"
    }
    raw["time"], consumed = _time(row, layout.keys)
    for key in ("time", "expires_at"):
        if is_no_time(raw.get(key)):
            raw.pop(key, None)
    if "text" not in layout.keys:
        cells = [(names[at], row[at].strip()) for at in layout.wordy if at < len(row) and row[at].strip()]
        is_plain = len(layout.wordy) == 1
        lines = (cell if is_plain or _normal(name) in _TITLES else f"{name}: {cell}" for name, cell in cells)
        raw["text"] = "\n".join(lines)
    if not str(raw.get("text", "")).strip():
        return None
    used = {*(at for key, at in layout.keys.items() if key not in ("time", "clock")), *consumed}
    rest = {names[at]: cell for at, cell in enumerate(row) if at not in used and cell.strip() and names[at]}
    record = read_record({**raw, "metadata": rest}, origin, ids)
    searched = tuple(dict.fromkeys(names[at] for at in layout.wordy if is_path(names[at])))
    if isinstance(record, MemoryItem) and searched and "text" in layout.keys:
        return replace(record, indexed_fields=searched)
    return record


def _time(row: list[str], keys: Mapping[str, int]) -> tuple[str, set[int]]:
    """Return the time of a row, of one column or two, and the positions of the columns that it is of."""
    positions = [keys.get("time"), keys.get("clock")]
    date, clock = ("" if at is None or at >= len(row) else row[at].strip() for at in positions)
    both = {at for at in positions if at is not None}
    if is_no_time(clock):
        # A time of the day alone is metadata.
        return ("", set()) if is_clock(date) else (date, both)
    if not is_clock(clock):
        return clock, {keys["clock"]}
    return ("", set()) if is_no_time(date) else (f"{_MIDNIGHT.sub('', date)} {clock}", both)


def _shown(names: list[str]) -> str:
    return ", ".join(map(repr, names[:20])) or "nothing"
