"""Detecting the format of a data file, and reading it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from devmem.collections.wrappers import outbox_bodies
from devmem.errors import DataFileError, OutboxError
from devmem.transfer.importing.coding_sessions import is_claude_code, is_codex, read_claude_code, read_codex
from devmem.transfer.importing.documents import DOCUMENTS, find_document, known_formats
from devmem.transfer.importing.exports import exported_fields
from devmem.transfer.importing.file_format import FileFormat
from devmem.transfer.importing.files import (
    count_lines,
    is_sqlite,
    is_text,
    parse_line,
    read_document,
    read_lines,
    read_text_lines,
)
from devmem.transfer.importing.madial import is_madial, read_madial
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.prose import read_paragraphs
from devmem.transfer.importing.records import Record, looks_like_record, read_record
from devmem.transfer.importing.tables import read_table

Line = tuple[object, Origin]
"""A line as JSON, and its place."""
_SUFFIXES: Final = {
    ".csv": FileFormat.CSV,
    ".tsv": FileFormat.TSV,
    ".md": FileFormat.MARKDOWN,
    ".markdown": FileFormat.MARKDOWN,
    ".txt": FileFormat.TEXT,
}
_TABLES: Final[Mapping[FileFormat, str | None]] = {FileFormat.CSV: None, FileFormat.TSV: "\t"}
_FIRST_LINES: Final = 20
"""Lines of a session that are looked at: the first ones may be notes of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """An opened data file; its records can be consumed once."""

    path: Path
    """Path, or the name in its place."""
    format: FileFormat
    total: int
    """Number of records, or of messages where some of them make none."""
    records: Iterator[Record]
    fields: tuple[str, ...] = ()
    """Fields by which the store was searched that the file is an export of."""


def open_data(
    path: str | Path,
    format: FileFormat | str = FileFormat.AUTO,  # noqa: A002 - the option's word
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    name: str | None = None,
) -> DataFile:
    """Detect the format of a file and count its records, which are read and checked as they are consumed.

    Args:
        path: the file, plain or gzipped.
        format: its format.
        columns: of a table, names of columns by the keys of a record: `{"text": "Body"}`.
        encoding: of a text or a table; None takes UTF-8, or guesses and logs what it takes. JSON is always UTF-8.
        name: of the file in messages and in its records; None is its path.

    Raises:
        DataFileError: it cannot be read, or is of no known format. Consuming the records raises it too.
    """
    file = Path(path)
    origin = Origin(path=Path(name) if name else file)
    with _called(file, origin.path):
        found = _open(file, origin, FileFormat(format), columns or {}, encoding)
    return replace(found, records=_each(found.records, file, origin.path))


@contextmanager
def _called(file: Path, shown: Path) -> Iterator[None]:
    """Have errors call a file by the name that is shown."""
    try:
        yield
    except DataFileError as error:
        if shown == file or error.path != str(file):
            raise
        raise DataFileError(shown, error.message, line=error.line) from error


def _each(records: Iterator[Record], file: Path, shown: Path) -> Iterator[Record]:
    with _called(file, shown):
        yield from records


def _open(file: Path, origin: Origin, wanted: FileFormat, columns: Mapping[str, str], encoding: str | None) -> DataFile:
    if wanted is FileFormat.AUTO:
        wanted = _format_of_file(file, encoding)
    if wanted is FileFormat.OUTBOX:
        return _outbox(file, origin)
    if wanted in _TABLES:
        lines = read_text_lines(file, encoding, shown=origin.path)
        table = read_table(lines, origin, delimiter=_TABLES[wanted], columns=columns)
        return DataFile(path=origin.path, format=wanted, total=max(count_lines(file) - 1, 0), records=table)
    if wanted in (FileFormat.TEXT, FileFormat.MARKDOWN):
        lines = read_text_lines(file, encoding, shown=origin.path)
        numbered = enumerate((line.rstrip("\r\n") for line in lines), start=1)
        found = list(read_paragraphs(numbered, origin, markdown=wanted is FileFormat.MARKDOWN))
        return DataFile(path=origin.path, format=wanted, total=len(found), records=iter(found))
    if wanted in _LINES:
        records = _LINES[wanted](_parsed_lines(file, origin))
        return DataFile(path=origin.path, format=wanted, total=count_lines(file), records=records)
    return _document(file, origin, wanted)


def detect_format(path: str | Path) -> FileFormat:
    """Return the format of a file; raises `DataFileError` when it cannot be read or is of no known format."""
    return open_data(path).format


def read_records(path: str | Path, format: FileFormat | str = FileFormat.AUTO) -> Iterator[Record]:  # noqa: A002
    """Yield the records of a file; raises `DataFileError` at the first that is not usable."""
    yield from open_data(path, format).records


def _format_of_file(path: Path, encoding: str | None) -> FileFormat:
    """Return the format, or AUTO for a document whose content decides."""
    if is_sqlite(path):
        return FileFormat.OUTBOX
    if encoding is None and not is_text(path):
        raise DataFileError(
            path,
            f"of no known format ({known_formats()}): it is no text. Unpack an archive first; name the encoding of a "
            "text (--encoding)",
        )
    first = next((line.strip() for line in read_text_lines(path, encoding, quiet=True) if line.strip()), "")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    named = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if named is not None and (named in _TABLES or not first.startswith(("{", "["))):
        return named
    if not first:
        return FileFormat.JSONL
    if first.startswith("["):
        return FileFormat.AUTO
    if first.startswith("{"):
        return _format_of_lines(path)
    raise DataFileError(
        path,
        f"of no known format ({known_formats()}): it begins with {first[:40]!r}; --format text reads it as plain text, "
        "--format csv as a table",
    )


def _format_of_lines(path: Path) -> FileFormat:
    """Return the format of a file that begins with an object; AUTO where the file is one document."""
    heads = list(islice(_parsed(path), _FIRST_LINES))
    for name, is_line in _DETECTED_LINES.items():
        if any(map(is_line, heads)):
            return name
    if heads[0] is None:
        # The first line is damaged, unless it begins a document of several lines.
        return FileFormat.JSONL if heads[1:] and heads[1] is not None else FileFormat.AUTO
    by_line = next((one for one in DOCUMENTS.values() if one.is_line is not None and one.is_line(heads[0])), None)
    if by_line is not None:
        return by_line.name
    is_document = any(one.detects(heads[0]) for one in DOCUMENTS.values())
    return FileFormat.AUTO if is_document or not any(map(looks_like_record, heads)) else FileFormat.JSONL


def _parsed(path: Path) -> Iterator[Mapping[str, object] | None]:
    """Yield the object on each line, None for a line that is none."""
    for _, line in read_lines(path):
        try:
            raw = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raw = None
        yield raw if isinstance(raw, Mapping) else None


def _document(path: Path, origin: Origin, wanted: FileFormat) -> DataFile:
    """Open a JSON document, or the lines of a format that has both forms."""
    known = DOCUMENTS.get(wanted)
    document: object
    if known is not None and known.is_line is not None and _has_lines(path):
        document = [parse_line(path, number, line) for number, line in read_lines(path)]
    else:
        document = read_document(path)
    found = known or find_document(document, origin)
    return DataFile(
        path=origin.path,
        format=found.name,
        total=found.count(document),
        records=found.read(document, origin),
        fields=exported_fields(document, origin),
    )


def _has_lines(path: Path) -> bool:
    """Whether the first two lines are an object each."""
    first = list(islice(_parsed(path), 2))
    return len(first) == 2 and None not in first


def _outbox(path: Path, origin: Origin) -> DataFile:
    try:
        bodies = outbox_bodies(path)
    except OutboxError as error:
        raise DataFileError(path, f"a SQLite file that is not an outbox ({error})") from error
    elements = [parse_line(path, number, body) for number, body in enumerate(bodies, start=1)]
    records = DOCUMENTS[FileFormat.DEVALL].read(elements, origin)
    return DataFile(path=origin.path, format=FileFormat.OUTBOX, total=len(elements), records=records)


def _parsed_lines(path: Path, origin: Origin) -> Iterator[Line]:
    for number, line in read_lines(path):
        yield parse_line(path, number, line), replace(origin, line=number)


def _read_plain(lines: Iterable[Line]) -> Iterator[Record]:
    for raw, origin in lines:
        yield read_record(raw, origin)


def _read_madial(lines: Iterable[Line]) -> Iterator[Record]:
    for raw, origin in lines:
        yield from read_madial(raw, origin)


_LINES: Final[Mapping[FileFormat, Callable[[Iterable[Line]], Iterator[Record]]]] = {
    FileFormat.JSONL: _read_plain,
    FileFormat.MADIAL: _read_madial,
    FileFormat.CLAUDE_CODE: read_claude_code,
    FileFormat.CODEX: read_codex,
}
_DETECTED_LINES: Final[Mapping[FileFormat, Callable[[object], bool]]] = {
    FileFormat.MADIAL: is_madial,
    FileFormat.CLAUDE_CODE: is_claude_code,
    FileFormat.CODEX: is_codex,
}
"""Formats that are JSON lines only."""
