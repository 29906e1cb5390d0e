"""Detecting the format of a data file, and reading it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeGuard

from devmem.collections.wrappers import outbox_bodies
from devmem.errors import DataFileError, OutboxError
from devmem.transfer.importing.exports import count_exported, is_export, read_export
from devmem.transfer.importing.files import count_lines, is_sqlite, parse_line, read_document, read_lines
from devmem.transfer.importing.locomo import count_turns, is_locomo, read_locomo
from devmem.transfer.importing.longmemeval import count_turns as count_turns_of_questions
from devmem.transfer.importing.longmemeval import is_longmemeval, read_longmemeval
from devmem.transfer.importing.madial import is_madial, read_madial
from devmem.transfer.importing.metagpt import count_messages, is_metagpt, read_metagpt
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import Record, read_record
from devmem.transfer.importing.units import count_units, is_units, read_units


class FileFormat(StrEnum):
    """Formats of data files."""

    AUTO = "auto"
    """Detected by the content."""
    JSONL = "jsonl"
    """One JSON object a line: a text, an item, or a rescued write."""
    DEVALL = "devall"
    """A JSON list of items, as DevAll (ChatDev 2) keeps them, or of texts; or the index of its file memory."""
    EXPORT = "export"
    """The output of `devmem export`."""
    LOCOMO = "locomo"
    """LoCoMo's conversations, a list of them or one."""
    LONGMEMEVAL = "longmemeval"
    """LongMemEval's questions, each with the sessions of its own history."""
    MADIAL = "madial"
    """MADial-Bench's memories, an object `{ID: {time, event, user-id}}` a line."""
    METAGPT = "metagpt"
    """MetaGPT's memory, message queue or brain memory, or a dump of devmem's messages."""
    OUTBOX = "outbox"
    """Writes that waited for their store when the process ended, a SQLite file."""
    UNITS = "units"
    """A list of `{id, units: [{id, session, speaker, date, text}]}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """An opened data file; its records can be consumed once."""

    path: Path
    format: FileFormat
    total: int
    """Number of records."""
    records: Iterator[Record]


def open_data(path: str | Path, format: FileFormat | str = FileFormat.AUTO) -> DataFile:  # noqa: A002 - the option's word
    """Detect the format of a file and count its records, which are read and checked as they are consumed.

    Raises:
        DataFileError: it cannot be read, or is of no known format. Consuming the records raises it too.
    """
    file = Path(path)
    wanted = FileFormat(format)
    if wanted is FileFormat.OUTBOX or (wanted is FileFormat.AUTO and is_sqlite(file)):
        return _outbox(file)
    lines = _form_of_lines(file) if wanted is FileFormat.AUTO else wanted
    if lines is FileFormat.JSONL:
        return DataFile(path=file, format=lines, total=count_lines(file), records=_from_lines(file))
    if lines is FileFormat.MADIAL:
        return DataFile(path=file, format=lines, total=count_lines(file), records=_from_madial(file))
    document = read_document(file)
    found = _format_of(document, file) if wanted is FileFormat.AUTO else wanted
    elements: list[object] = document if isinstance(document, list) else [document]
    origin = Origin(path=file)
    match found:
        case FileFormat.EXPORT:
            total = count_exported(document)
            return DataFile(path=file, format=found, total=total, records=read_export(document, origin))
        case FileFormat.LOCOMO:
            return DataFile(path=file, format=found, total=count_turns(elements), records=read_locomo(elements, origin))
        case FileFormat.LONGMEMEVAL:
            total = count_turns_of_questions(elements)
            return DataFile(path=file, format=found, total=total, records=read_longmemeval(elements, origin))
        case FileFormat.METAGPT:
            total = count_messages(document)
            return DataFile(path=file, format=found, total=total, records=read_metagpt(document, origin))
        case FileFormat.UNITS:
            return DataFile(path=file, format=found, total=count_units(elements), records=read_units(elements, origin))
        case _:
            if _is_file_index(document):
                elements, origin = document["contents"], replace(origin, entry="contents")
            return DataFile(path=file, format=found, total=len(elements), records=_from_list(elements, origin))


def detect_format(path: str | Path) -> FileFormat:
    """Return the format of a file; raises `DataFileError` when it cannot be read or is of no known format."""
    return open_data(path).format


def read_records(path: str | Path, format: FileFormat | str = FileFormat.AUTO) -> Iterator[Record]:  # noqa: A002
    """Yield the records of a file; raises `DataFileError` at the first that is not usable."""
    yield from open_data(path, format).records


def _form_of_lines(path: Path) -> FileFormat | None:
    """Return the format of a file of lines; None when the file is one JSON document."""
    _, first = next(iter(read_lines(path)), (0, ""))
    if not first.startswith("{"):
        return None if first else FileFormat.JSONL
    try:
        raw = json.loads(first)
    except (json.JSONDecodeError, RecursionError):
        return FileFormat.JSONL if _more_lines_are_objects(path) else None
    if is_madial(raw):
        return FileFormat.MADIAL
    documents = (is_locomo, is_longmemeval, is_units, is_export, is_metagpt, _is_file_index)
    return None if any(looks_like(raw) for looks_like in documents) else FileFormat.JSONL


def _more_lines_are_objects(path: Path) -> bool:
    """Whether the second line is an object too, so that the first is damaged and not part of a document."""
    lines = read_lines(path)
    next(lines)
    _, second = next(lines, (0, ""))
    return second.startswith("{")


def _format_of(document: object, path: Path) -> FileFormat:
    first = document[0] if isinstance(document, list) and document else document
    if is_export(document):
        return FileFormat.EXPORT
    if is_locomo(first):
        return FileFormat.LOCOMO
    if is_longmemeval(first):
        return FileFormat.LONGMEMEVAL
    if is_units(first):
        return FileFormat.UNITS
    if is_metagpt(document):
        return FileFormat.METAGPT
    if _is_file_index(document):
        return FileFormat.DEVALL
    if isinstance(document, list) and (not document or isinstance(first, Mapping)):
        return FileFormat.DEVALL
    known = ", ".join(one.value for one in FileFormat if one is not FileFormat.AUTO)
    raise DataFileError(path, f"of no known format ({known}): the document is {_looks(document)}")


def _is_file_index(document: object) -> TypeGuard[Mapping[str, list[object]]]:
    """Whether a document is the index of DevAll's file memory, whose chunks are items."""
    return isinstance(document, Mapping) and "file_metadata" in document and isinstance(document.get("contents"), list)


def _looks(document: object) -> str:
    if isinstance(document, list):
        return f"a list whose first element is of type {type(document[0]).__name__}"
    if isinstance(document, Mapping):
        return f"an object with the keys {', '.join(repr(str(key)[:40]) for key in list(document)[:8]) or 'none'}"
    return f"of type {type(document).__name__}"


def _outbox(path: Path) -> DataFile:
    try:
        bodies = outbox_bodies(path)
    except OutboxError as error:
        raise DataFileError(path, f"a SQLite file that is not an outbox ({error})") from error
    elements = [parse_line(path, number, body) for number, body in enumerate(bodies, start=1)]
    records = _from_list(elements, Origin(path=path))
    return DataFile(path=path, format=FileFormat.OUTBOX, total=len(elements), records=records)


def _from_lines(path: Path) -> Iterator[Record]:
    for number, line in read_lines(path):
        yield read_record(parse_line(path, number, line), Origin(path=path, line=number))


def _from_madial(path: Path) -> Iterator[Record]:
    for number, line in read_lines(path):
        yield from read_madial(parse_line(path, number, line), Origin(path=path, line=number))


def _from_list(elements: list[object], origin: Origin) -> Iterator[Record]:
    for at, raw in enumerate(elements):
        yield read_record(raw, replace(origin, entry=f"{origin.entry}[{at}]"))
