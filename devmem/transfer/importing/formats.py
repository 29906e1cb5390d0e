"""Detecting the format of a data file, and reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Final, TypeGuard

from devmem.errors import DataFileError, OutboxError
from devmem.model.items import MemoryItem
from devmem.model.times import DateOrder
from devmem.storage.outbox import outbox_bodies
from devmem.transfer.importing.calendars import is_calendar, read_calendar
from devmem.transfer.importing.chats import (
    count_langchain,
    count_listed,
    is_chatgpt,
    is_claude,
    is_langchain,
    is_openai_example,
    is_openai_messages,
    is_sharegpt,
    is_slack,
    read_chatgpt,
    read_claude,
    read_langchain,
    read_openai_messages,
    read_sharegpt,
    read_slack,
    slack_users,
)
from devmem.transfer.importing.coding_sessions import is_claude_code, is_codex, read_claude_code, read_codex
from devmem.transfer.importing.files import (
    FileFormat,
    count_lines,
    is_sqlite,
    is_text,
    parse_json,
    parse_line,
    read_document,
    read_head,
    read_lines,
    read_text_lines,
)
from devmem.transfer.importing.mails import is_mail, is_mbox, read_eml, read_mbox
from devmem.transfer.importing.memories import (
    count_exported,
    count_mem0,
    count_messages,
    exported_fields,
    is_export,
    is_mem0,
    is_metagpt,
    read_export,
    read_mem0,
    read_metagpt,
)
from devmem.transfer.importing.phone_chats import (
    count_telegram,
    is_telegram,
    is_whatsapp,
    read_telegram,
    read_whatsapp,
)
from devmem.transfer.importing.prose import is_html, is_text_list, read_html, read_paragraphs, read_text_list
from devmem.transfer.importing.records import Origin, Record, RecordIds, looks_like_record, read_record
from devmem.transfer.importing.tables import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFormat:
    """A format of JSON documents."""

    name: FileFormat
    detects: Callable[[object], bool]
    """Whether a document has it."""
    count: Callable[[object], int]
    """Number of records, or of messages where some of them make none."""
    read: Callable[[object, Origin], Iterator[Record]]
    is_line: Callable[[object], bool] | None = None
    """Whether an object on its own line has it; None where the format has no lines."""


def find_document(document: object, origin: Origin) -> DocumentFormat:
    """Return the format of a document.

    Raises:
        DataFileError: its format is unrecognised.
    """
    found = next((one for one in DOCUMENTS.values() if one.detects(document)), None)
    if found is None:
        raise DataFileError(
            origin.path, f"unrecognised format (not one of {known_formats()}): the document is {_looks(document)}"
        )
    return found


def known_formats() -> str:
    """Return the names of all formats, for an error."""
    return ", ".join(one.value for one in FileFormat if one is not FileFormat.AUTO)


def _elements(document: object) -> list[object]:
    return document if isinstance(document, list) else [document]


def _of_elements(
    name: FileFormat,
    is_one: Callable[[object], bool],
    count: Callable[[list[object]], int],
    read: Callable[[list[object], Origin], Iterator[Record]],
) -> DocumentFormat:
    """Return a format whose documents are lists of one kind of objects, or one such object."""
    return DocumentFormat(
        name=name,
        detects=lambda document: is_one(next(iter(_elements(document)), None)),
        count=lambda document: count(_elements(document)),
        read=lambda document, origin: read(_elements(document), origin),
        is_line=is_one,
    )


def _is_file_index(document: object) -> TypeGuard[Mapping[str, list[object]]]:
    """Whether a document is the index of DevAll's file memory, whose chunks are items."""
    return isinstance(document, Mapping) and "file_metadata" in document and isinstance(document.get("contents"), list)


def _is_list_of_records(document: object) -> bool:
    return isinstance(document, list) and (not document or isinstance(document[0], Mapping))


def _read_records(document: object, origin: Origin) -> Iterator[Record]:
    if _is_file_index(document):
        document, origin = document["contents"], replace(origin, entry="contents")
    ids = RecordIds()
    for at, raw in enumerate(_elements(document)):
        yield read_record(raw, replace(origin, entry=f"{origin.entry}[{at}]"), ids)


def _count_nodes(conversations: list[object]) -> int:
    mappings = (raw.get("mapping") for raw in conversations if isinstance(raw, Mapping))
    return sum(len(nodes) for nodes in mappings if isinstance(nodes, Mapping))


def _count_chat_messages(conversations: list[object]) -> int:
    lists = (raw.get("chat_messages") for raw in conversations if isinstance(raw, Mapping))
    return sum(len(messages) for messages in lists if isinstance(messages, list))


_FORMATS: Final = (
    DocumentFormat(name=FileFormat.EXPORT, detects=is_export, count=count_exported, read=read_export),
    DocumentFormat(name=FileFormat.METAGPT, detects=is_metagpt, count=count_messages, read=read_metagpt),
    _of_elements(FileFormat.CHATGPT, is_chatgpt, _count_nodes, read_chatgpt),
    _of_elements(FileFormat.CLAUDE, is_claude, _count_chat_messages, read_claude),
    _of_elements(FileFormat.SLACK, is_slack, len, read_slack),
    DocumentFormat(name=FileFormat.TELEGRAM, detects=is_telegram, count=count_telegram, read=read_telegram),
    DocumentFormat(name=FileFormat.LANGCHAIN, detects=is_langchain, count=count_langchain, read=read_langchain),
    DocumentFormat(
        name=FileFormat.MEM0,
        detects=is_mem0,
        count=count_mem0,
        read=read_mem0,
        is_line=lambda raw: is_mem0([raw]),
    ),
    _of_elements(FileFormat.SHAREGPT, is_sharegpt, count_listed, read_sharegpt),
    DocumentFormat(
        name=FileFormat.OPENAI,
        detects=lambda document: (
            is_openai_messages(document) or is_openai_example(next(iter(_elements(document)), None))
        ),
        count=lambda document: count_listed(_elements(document)),
        read=lambda document, origin: read_openai_messages(_elements(document), origin),
        is_line=is_openai_example,
    ),
    DocumentFormat(
        name=FileFormat.TEXTS,
        detects=is_text_list,
        count=lambda document: len(_elements(document)),
        read=lambda document, origin: read_text_list(_elements(document), origin),
    ),
    DocumentFormat(
        name=FileFormat.DEVALL,
        detects=lambda document: _is_file_index(document) or _is_list_of_records(document),
        count=lambda document: len(document["contents"] if _is_file_index(document) else _elements(document)),
        read=_read_records,
    ),
)
DOCUMENTS: Final[Mapping[FileFormat, DocumentFormat]] = {one.name: one for one in _FORMATS}
"""Formats of documents by name, in the order in which they are tried."""


def _looks(document: object) -> str:
    if isinstance(document, list):
        return f"a list whose first element is of type {type(document[0]).__name__}"
    if isinstance(document, Mapping):
        return f"an object with the keys {', '.join(repr(str(key)[:40]) for key in list(document)[:8]) or 'none'}"
    return f"of type {type(document).__name__}"


Line = tuple[object, Origin]
"""A line as JSON, and its place."""
_SUFFIXES: Final = {
    ".csv": FileFormat.CSV,
    ".tsv": FileFormat.TSV,
    ".md": FileFormat.MARKDOWN,
    ".markdown": FileFormat.MARKDOWN,
    ".txt": FileFormat.TEXT,
    ".html": FileFormat.HTML,
    ".htm": FileFormat.HTML,
    ".xhtml": FileFormat.HTML,
    ".ics": FileFormat.ICS,
    ".ical": FileFormat.ICS,
    ".mbox": FileFormat.MBOX,
    ".mbx": FileFormat.MBOX,
    ".eml": FileFormat.EML,
}
_TABLES: Final[Mapping[FileFormat, str | None]] = {FileFormat.CSV: None, FileFormat.TSV: "\t"}
_BYTE_FORMATS: Final[Mapping[FileFormat, Callable[[Path, Origin, str | None], list[MemoryItem]]]] = {
    FileFormat.HTML: read_html,
    FileFormat.EML: read_eml,
    FileFormat.ICS: read_calendar,
}
"""Formats that name their encoding themselves, by the functions that read a whole file."""
_STREAMED: Final[Mapping[FileFormat, Callable[[Path, Origin, str | None], tuple[int, Iterator[MemoryItem]]]]] = {
    FileFormat.MBOX: read_mbox,
}
"""Formats of large files, by the functions that count their records and read them one by one."""
_BEGINNINGS: Final[Mapping[FileFormat, Callable[[bytes], bool]]] = {
    FileFormat.HTML: is_html,
    FileFormat.ICS: is_calendar,
    FileFormat.MBOX: is_mbox,
    FileFormat.EML: is_mail,
}
"""Whether the first bytes of a file, whose name does not tell its format, are of one."""
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
    dates: DateOrder | str | None = None,
) -> DataFile:
    """Detect the format of a file and count its records, which are read and checked as they are consumed.

    Args:
        path: the file, plain or gzipped.
        format: its format.
        columns: of a table, names of columns by the keys of a record: `{"text": "Body"}`; `none` for no column.
        encoding: of a text or a table; None takes UTF-8, or guesses and logs what it takes. JSON is always UTF-8.
        name: of the file in messages and in its records; None is its path.
        dates: order of day and month in dates such as `03/04/2025`; None finds out where the dates tell.

    Raises:
        DataFileError: it cannot be read, or its format is unrecognised. Consuming the records raises it too.
    """
    file = Path(path)
    origin = Origin(path=Path(name) if name else file, dates=DateOrder(dates) if dates else None)
    with _called(file, origin.path):
        found = _open(file, origin, FileFormat(format), columns or {}, encoding)
    return replace(found, records=_each(found.records, file, origin))


@contextmanager
def _called(file: Path, shown: Path) -> Iterator[None]:
    """Have errors call a file by the name that is shown."""
    try:
        yield
    except DataFileError as error:
        if shown == file or error.path != str(file):
            raise
        raise type(error)(shown, error.message, line=error.line) from error


def _each(records: Iterator[Record], file: Path, origin: Origin) -> Iterator[Record]:
    with _called(file, origin.path):
        try:
            yield from records
        finally:
            origin.unread_times.report(origin.path)


def _open(
    file: Path,
    origin: Origin,
    wanted: FileFormat,
    columns: Mapping[str, str],
    encoding: str | None,
) -> DataFile:
    if wanted is FileFormat.AUTO:
        wanted = _format_of_file(file, encoding)
    if wanted is FileFormat.OUTBOX:
        return _outbox(file, origin)
    if wanted in _BYTE_FORMATS:
        items = _BYTE_FORMATS[wanted](file, origin, encoding)
        return DataFile(path=origin.path, format=wanted, total=len(items), records=iter(items))
    if wanted in _STREAMED:
        total, streamed = _STREAMED[wanted](file, origin, encoding)
        return DataFile(path=origin.path, format=wanted, total=total, records=streamed)
    if wanted in _TABLES:
        table = read_table(_rereading(file, encoding, origin), origin, delimiter=_TABLES[wanted], columns=columns)
        return DataFile(path=origin.path, format=wanted, total=max(count_lines(file) - 1, 0), records=table)
    if wanted in (FileFormat.TEXT, FileFormat.MARKDOWN, FileFormat.WHATSAPP):
        lines = read_text_lines(file, encoding, shown=origin.path)
        numbered = enumerate((line.rstrip("\r\n") for line in lines), start=1)
        if wanted is FileFormat.WHATSAPP:
            found = read_whatsapp(numbered, origin)
        else:
            found = list(read_paragraphs(numbered, origin, markdown=wanted is FileFormat.MARKDOWN))
        return DataFile(path=origin.path, format=wanted, total=len(found), records=iter(found))
    if wanted in _LINES:
        records = _LINES[wanted](_parsed_lines(file, origin))
        return DataFile(path=origin.path, format=wanted, total=count_lines(file), records=records)
    return _document(file, origin, wanted)


def _rereading(file: Path, encoding: str | None, origin: Origin) -> Callable[[], Iterator[str]]:
    """Return a function that reads the lines of a file from the first on; a guessed encoding is logged once."""
    calls = count()
    return lambda: read_text_lines(file, encoding, shown=origin.path, quiet=next(calls) > 0)


def detect_format(path: str | Path) -> FileFormat:
    """Return the format of a file; raises `DataFileError` when it cannot be read or its format is unrecognised."""
    return open_data(path).format


def read_records(path: str | Path, format: FileFormat | str = FileFormat.AUTO) -> Iterator[Record]:  # noqa: A002
    """Yield the records of a file; raises `DataFileError` at the first that is not usable."""
    yield from open_data(path, format).records


def _format_of_file(path: Path, encoding: str | None) -> FileFormat:
    """Return the format, or AUTO for a document whose content decides."""
    if is_sqlite(path):
        return FileFormat.OUTBOX
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    named = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    found = named or _format_of_head(path)
    if found is not None and found in (*_BYTE_FORMATS, *_STREAMED):
        return found
    if encoding is None and not is_text(path):
        raise DataFileError(
            path,
            f"unrecognised format (binary file; not one of {known_formats()}): unpack an archive first; name the "
            "encoding of a text (--encoding)",
        )
    first = next((line.strip() for line in read_text_lines(path, encoding, quiet=True) if line.strip()), "")
    if named in (None, FileFormat.TEXT) and is_whatsapp(read_text_lines(path, encoding, quiet=True)):
        return FileFormat.WHATSAPP
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
        f"unrecognised format (not one of {known_formats()}): it begins with {first[:40]!r}; --format text reads it as "
        "plain text, --format csv as a table",
    )


def _format_of_head(path: Path) -> FileFormat | None:
    """Return the format that the first bytes of a file show."""
    head = read_head(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    return next((name for name, begins in _BEGINNINGS.items() if begins(head)), None)


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
    """Yield the object on each line, None for any other line."""
    for _, line in read_lines(path):
        try:
            raw = parse_json(line)
        except ValueError:
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
        records=_read_slack(path, document, origin) if found.name is FileFormat.SLACK else found.read(document, origin),
        fields=exported_fields(document, origin),
    )


def _read_slack(path: Path, document: object, origin: Origin) -> Iterator[Record]:
    """Read a day of a channel, with the names of the users in `users.json` beside the channels."""
    users = path.parent.parent / "users.json"
    return read_slack(_elements(document), origin, slack_users(read_document(users)) if users.is_file() else None)


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
    ids = RecordIds()
    for raw, origin in lines:
        yield read_record(raw, origin, ids)


_LINES: Final[Mapping[FileFormat, Callable[[Iterable[Line]], Iterator[Record]]]] = {
    FileFormat.JSONL: _read_plain,
    FileFormat.CLAUDE_CODE: read_claude_code,
    FileFormat.CODEX: read_codex,
}
_DETECTED_LINES: Final[Mapping[FileFormat, Callable[[object], bool]]] = {
    FileFormat.CLAUDE_CODE: is_claude_code,
    FileFormat.CODEX: is_codex,
}
"""Formats that are JSON lines only."""
