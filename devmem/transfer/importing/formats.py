"""Detecting the format of a data file, and reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from devmem.encryption.keys import is_database
from devmem.errors import DataFileError, OutboxError
from devmem.model.times import DateOrder
from devmem.storage.pending import DELIVERY, WRITE, pending_rows
from devmem.transfer.importing import chats, coding_sessions, memories, phone_chats
from devmem.transfer.importing.calendars import is_calendar, is_contacts, read_calendar, read_contacts
from devmem.transfer.importing.files import LISTS, FileFormat, FileReader, parse_json
from devmem.transfer.importing.mails import is_mail, is_mbox, read_eml, read_mbox
from devmem.transfer.importing.prose import is_html, read_html, read_markdown, read_text, text_items
from devmem.transfer.importing.records import (
    LeftOut,
    Line,
    Position,
    Record,
    RecordIds,
    looks_like_record,
    numbered,
    read_each,
    read_record,
)
from devmem.transfer.importing.tables import read_table

_FIRST: Final = 20
"""Elements or lines that are looked at: the first ones may be damaged, or notes of a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """An opened data file; its records can be consumed once."""

    path: Path
    """Path, or the name in its place."""
    format: FileFormat
    size: int
    """In bytes."""
    position: Callable[[], int]
    """Returns the number of bytes that were read."""
    records: Iterator[Record]
    left_out: LeftOut
    """Parts of the file that became no record; complete when the records are consumed."""
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
    """Detect the format of a file, whose records are read and checked as they are consumed.

    A record that cannot be used is left out, counted in `left_out`, and named in the log.

    Args:
        path: the file, plain or gzipped.
        format: its format.
        columns: of a table, names of columns by the keys of a record: `{"text": "Body"}`; `none` for no column.
        encoding: of a text or a table; None takes UTF-8, or guesses and logs what it takes. JSON is always UTF-8.
        name: of the file in messages and in its records; None is its path.
        dates: order of day and month in dates such as `03/04/2025`; None finds out where the dates tell.

    Raises:
        DataFileError: it cannot be read, or its format is unrecognised. Consuming the records raises it too, and where
            none of them can be used.
    """
    source = FileReader(Path(path), Path(name) if name else None, encoding)
    origin = Position(path=source.shown, file=source.path, dates=DateOrder(dates) if dates else None)
    wanted, size = FileFormat(format), source.size()
    fields: tuple[str, ...] = ()
    found = _format_of(source) if wanted is FileFormat.AUTO else wanted
    if found in _PLAIN:
        read, delimiter = _PLAIN[found].read, "\t" if found is FileFormat.TSV else None
        records = read(source, origin) if read else read_table(source, origin, delimiter, columns or {})
    else:
        lines = _json_lines(source, origin)
        heads = list(islice(lines, _FIRST))
        found = _format_of_json(heads, source) if found is FileFormat.AUTO else found
        if found is FileFormat.EXPORT and heads:
            fields = memories.exported_fields(*heads[0])
        records = _JSON[found][1](chain(heads, lines))
    return DataFile(
        path=source.shown,
        format=found,
        size=size,
        position=source.position,
        records=_each(records, origin),
        left_out=origin.left_out,
        fields=fields,
    )


def _each(records: Iterator[Record], origin: Position) -> Iterator[Record]:
    """Yield the records; raises the first error where every record has one, and otherwise logs them."""
    count, unusable = 0, origin.left_out.unusable
    try:
        for record in records:
            count += 1
            yield record
        if unusable.count and not count:
            raise unusable.first[0]
    finally:
        if count:
            origin.left_out.report(origin.path)


def read_records(path: str | Path, format: FileFormat | str = FileFormat.AUTO) -> Iterator[Record]:  # noqa: A002
    """Yield the records of a file; raises `DataFileError` at the first that cannot be used."""
    data = open_data(path, format)
    unusable = data.left_out.unusable
    for record in data.records:
        if unusable.count:
            break
        yield record
    if unusable.count:
        raise unusable.first[0]


def _format_of(source: FileReader) -> FileFormat:
    """Return the format of a file; AUTO for JSON, whose content decides."""
    if is_database(source.head()):
        return FileFormat.OUTBOX
    suffixes = [suffix.lower() for suffix in source.path.suffixes if suffix.lower() != ".gz"]
    named = SUFFIXES.get(suffixes[-1]) if suffixes else None
    head = _beginning(source)
    telling = {name: each.begins for name, each in _PLAIN.items() if each.begins is not None}
    found = named or next((name for name, begins in telling.items() if begins(head)), None)
    if found is not None and found in telling:
        return found
    if named in (None, FileFormat.TEXT) and head.startswith((b"{", b"[")):
        if phone_chats.is_whatsapp(head.decode("utf-8", "replace").splitlines()):
            return FileFormat.WHATSAPP
        if named is None or _is_json(source):
            return FileFormat.AUTO
    if not source.is_text():
        raise source.error(
            f"unrecognised format (binary file; not one of {_known_formats()}): unpack an archive first; name the "
            "encoding of a text (--encoding)"
        )
    if named in (None, FileFormat.TEXT) and phone_chats.is_whatsapp(source.text_lines()):
        return FileFormat.WHATSAPP
    if named is not None or not head:
        return named or FileFormat.AUTO
    first = next((line.strip() for line in source.text_lines() if line.strip()), "")
    raise source.error(
        f"unrecognised format (not one of {_known_formats()}): it begins with {first[:40]!r}; --format text reads it "
        "as plain text, --format csv as a table"
    )


def _is_json(source: FileReader) -> bool:
    """Whether a text that may begin as JSON is JSON, as far as its first value."""
    try:
        return next(_json_lines(source, Position(path=source.shown)), None) is not None
    except DataFileError:
        return False


def _beginning(source: FileReader) -> bytes:
    return source.head().removeprefix(b"\xef\xbb\xbf").lstrip()


def _known_formats() -> str:
    return ", ".join(one.value for one in FileFormat if one is not FileFormat.AUTO)


def _json_lines(source: FileReader, origin: Position) -> Iterator[Line]:
    """Yield the values of a JSON file: the elements of its list, its lines, or the one object that it is."""
    head = _beginning(source)
    if head.startswith(b"["):
        at = -1
        try:
            for at, raw in enumerate(source.elements()):
                yield raw, origin.at(at)
        except DataFileError as error:
            if at < 0:
                raise
            yield error, origin
    elif head and not _has_lines(source):
        yield source.document(), origin
    else:
        yield from _parsed(source.raw_lines(), origin)


def _parsed(lines: Iterable[tuple[int, bytes]], origin: Position) -> Iterator[Line]:
    """Yield the values of lines that are not blank, and an error for each that is not JSON."""
    for number, raw in lines:
        here = replace(origin, line=number)
        try:
            if raw.strip():
                yield parse_json(raw.decode("utf-8")), here
        except UnicodeDecodeError as error:
            yield here.error(f"the line is not UTF-8 ({error.reason}); convert the file to it"), here
        except ValueError as error:
            yield here.error(f"the line is not JSON: {getattr(error, 'msg', error)}"), here


def _has_lines(source: FileReader) -> bool:
    """Whether the first or the second line of a file is a value of JSON by itself."""
    try:
        values = _parsed(islice(source.raw_lines(), 2), Position(path=source.shown))
        return any(not isinstance(raw, DataFileError) for raw, _ in values)
    except DataFileError:
        # A line of any length may be one document.
        return False


def _format_of_json(heads: list[Line], source: FileReader) -> FileFormat:
    """Return the format of JSON; raises `DataFileError` where its first values are of none."""
    readable = [line for line in heads if not isinstance(line[0], DataFileError)]
    found = next((name for name, (is_one, _) in _JSON.items() if is_one(readable)), None)
    if found is not None and found is not FileFormat.JSONL:
        return found
    if found is None and readable:
        raw, looks = readable[0][0], f"a value of type {type(readable[0][0]).__name__}"
        if isinstance(raw, Mapping):
            looks = f"an object with the keys {', '.join(repr(str(key)[:40]) for key in list(raw)[:8]) or 'none'}"
        raise source.error(f"unrecognised format (not one of {_known_formats()}): it has {looks}")
    return FileFormat.DEVALL if heads and heads[0][1].entry else FileFormat.JSONL


_Test = Callable[[list[Line]], bool]


def _any(is_one: Callable[[object], bool]) -> _Test:
    return lambda heads: any(is_one(raw) for raw, _ in heads)


def _half(is_one: Callable[[object], bool]) -> _Test:
    """Return a test that half of the first values pass, some of which may be damaged."""
    return lambda heads: bool(heads) and 2 * sum(is_one(raw) for raw, _ in heads) >= len(heads)


def _list_of(is_one: Callable[[object], bool]) -> _Test:
    """Return a test that the elements of a list pass, of which JSON lines would be separate records."""
    return lambda heads: bool(heads) and all(origin.entry and is_one(raw) for raw, origin in heads)


def _either(one: _Test, other: _Test) -> _Test:
    return lambda heads: one(heads) or other(heads)


def _each_value(read: Callable[[Any, Position], Iterator[Record]]) -> Callable[[Iterable[Line]], Iterator[Record]]:
    """Return a reader of lines that are independent of one another."""
    return lambda lines: read_each(lines, read)


def _read_plain(lines: Iterable[Line]) -> Iterator[Record]:
    ids = RecordIds()

    def records(raw: object, origin: Position) -> Iterator[Record]:
        if isinstance(raw, Mapping) and _is_file_index(raw):
            # The index of DevAll's file memory, whose chunks are items.
            yield from read_each(numbered(raw["contents"], origin.at("contents")), records)
        else:
            yield read_record(raw, origin, ids)

    return read_each(lines, records)


def _is_file_index(raw: object) -> bool:
    return isinstance(raw, Mapping) and "file_metadata" in raw and isinstance(raw.get("contents"), LISTS)


_JSON: Final[Mapping[FileFormat, tuple[_Test, Callable[[Iterable[Line]], Iterator[Any]]]]] = {
    FileFormat.CLAUDE_CODE: (_any(coding_sessions.is_claude_code), coding_sessions.read_claude_code),
    FileFormat.CODEX: (_any(coding_sessions.is_codex), coding_sessions.read_codex),
    FileFormat.EXPORT: (_any(memories.is_export), _each_value(memories.exported_items)),
    FileFormat.METAGPT: (
        _either(_any(memories.is_metagpt), _list_of(memories.is_metagpt_message)),
        memories.read_metagpt,
    ),
    FileFormat.CHATGPT: (_half(chats.is_chatgpt), _each_value(chats.chatgpt_items)),
    FileFormat.CLAUDE: (_half(chats.is_claude), _each_value(chats.claude_items)),
    FileFormat.OPEN_WEBUI: (_half(chats.is_open_webui), _each_value(chats.open_webui_items)),
    FileFormat.SLACK: (_half(chats.is_slack), chats.read_slack),
    FileFormat.DISCORD: (_any(phone_chats.is_discord), phone_chats.read_discord),
    FileFormat.FACEBOOK: (_any(phone_chats.is_facebook), phone_chats.read_facebook),
    FileFormat.TELEGRAM: (_any(phone_chats.is_telegram), phone_chats.read_telegram),
    FileFormat.LANGCHAIN: (
        _either(_any(chats.is_langchain), _list_of(chats.is_langchain_message)),
        chats.read_langchain,
    ),
    FileFormat.MCP_MEMORY: (_half(memories.is_mcp_memory), _each_value(memories.mcp_memory_items)),
    FileFormat.KEEP: (_any(memories.is_keep), _each_value(memories.keep_items)),
    FileFormat.MEM0: (_half(memories.is_mem0), _each_value(memories.mem0_items)),
    FileFormat.SHAREGPT: (_half(chats.is_sharegpt), chats.read_sharegpt),
    FileFormat.OPENAI: (_either(_half(chats.is_openai_example), _list_of(chats.is_openai_message)), chats.read_openai),
    FileFormat.TEXTS: (_half(lambda raw: isinstance(raw, str)), _each_value(text_items)),
    FileFormat.DEVALL: (_any(_is_file_index), _read_plain),
    FileFormat.JSONL: (_any(looks_like_record), _read_plain),
}
"""Formats of JSON, in the order in which their tests are tried on the first values of a file, and their readers."""


def _read_outbox(source: FileReader, origin: Position) -> Iterator[Record]:
    try:
        bodies = [row.payload for row in pending_rows(source.path, WRITE, DELIVERY)]
    except OutboxError as error:
        raise source.error(f"a SQLite file that is not an outbox ({error})") from error
    return _read_plain(_parsed(((at, body.encode()) for at, body in enumerate(bodies, start=1)), origin))


@dataclass(frozen=True, slots=True)
class _PlainFormat:
    """A format that is not JSON."""

    suffixes: str
    """Ends of the names of its files."""
    read: Callable[[FileReader, Position], Iterator[Record]] | None = None
    """Reads a file; None for a table, of which the caller may name the columns."""
    begins: Callable[[bytes], bool] | None = None
    """Whether a file of any name is of it by its first bytes; None where these do not tell."""


_PLAIN: Final[Mapping[FileFormat, _PlainFormat]] = {
    FileFormat.CSV: _PlainFormat("csv"),
    FileFormat.TSV: _PlainFormat("tsv"),
    FileFormat.MARKDOWN: _PlainFormat("md markdown", read_markdown),
    FileFormat.TEXT: _PlainFormat("txt", read_text),
    FileFormat.HTML: _PlainFormat("html htm xhtml", read_html, is_html),
    FileFormat.ICS: _PlainFormat("ics ical", read_calendar, is_calendar),
    FileFormat.VCARD: _PlainFormat("vcf vcard", read_contacts, is_contacts),
    FileFormat.MBOX: _PlainFormat("mbox mbx", read_mbox, is_mbox),
    FileFormat.EML: _PlainFormat("eml", read_eml, is_mail),
    FileFormat.WHATSAPP: _PlainFormat("", phone_chats.read_whatsapp),
    FileFormat.OUTBOX: _PlainFormat("", _read_outbox),
}
SUFFIXES: Final = {f".{suffix}": name for name, each in _PLAIN.items() for suffix in each.suffixes.split()}
"""Formats by the ends of the names of their files."""
