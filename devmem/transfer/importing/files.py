"""Reading a data file, gzipped or not: whole, line by line, or element by element of a JSON list."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import logging
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from devmem.encryption.files import read_file
from devmem.encryption.keys import HEADER_BYTES, is_sealed
from devmem.errors import DataFileError, UnreadableError
from devmem.text.files import decode_text, describe_guess, detect_encoding, seems_utf8

_GZIP: Final = b"\x1f\x8b"
_MARK: Final = b"\xef\xbb\xbf"
_PART: Final = 1 << 20
_LOG: Final = logging.getLogger(__name__)
_HEAD: Final = 8192
"""Number of bytes that show whether a file is a text."""
LARGEST_WHOLE: Final = 200_000_000
"""Bytes of a page, a calendar or a mail, which are read at once."""
_LONGEST_LINE: Final = 16_000_000
"""Bytes of a line: of a JSON object with a whole conversation, or of a paragraph."""
_LARGEST_RATIO: Final = 200
"""How many times its packed size a large text may have; those of people and programs have 5 to 50 times."""
_DEEPEST: Final = 200
"""Levels of lists and objects in a JSON document of any size."""
_RECORD_LISTS: Final = frozenset("messages items results contents storage knowledge history conversations".split())
"""Keys of the lists that make a JSON object large."""
_BEGINNINGS: Final = frozenset({"null", "boolean", "number", "string", "start_map", "start_array"})
"""Events of the streaming reader with which a value begins."""
_SMALL_PART: Final = 1 << 12
"""Bytes in which the lists of a hostile document cannot nest so deeply that their paths fill the memory."""
SLOW_CODECS: Final = frozenset({"punycode", "idna"})
"""Encodings of names of hosts, which take time quadratic in the length of a text."""


def is_bomb(packed: int, unpacked: int) -> bool:
    """Whether a file of a packed and an unpacked size (bytes) is one that only fills memory or disk."""
    return unpacked > LARGEST_WHOLE and unpacked > _LARGEST_RATIO * packed


class _Unpacked(io.RawIOBase):
    """The bytes of a gzip file; reading one that unpacks to far more than texts do raises `DataFileError`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._gzip = gzip.GzipFile(fileobj=file)
        self._path, self._packed = path, os.fstat(file.fileno()).st_size

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read bytes into a buffer; return their number."""
        part = self._gzip.read(len(buffer))
        buffer[: len(part)] = part
        if is_bomb(self._packed, self._gzip.tell()):
            raise DataFileError(
                self._path, f"it unpacks to more than {_LARGEST_RATIO} times its size; unpack it first if that is right"
            )
        return len(part)


@dataclass(slots=True)
class FileReader:
    """A data file. Every method that reads raises `DataFileError`, which names it, where it cannot be read."""

    path: Path
    name: Path | None = None
    """Name of the file in messages; None is its path."""
    encoding: str | None = None
    """Encoding of a text or a table; None takes UTF-8, or else the one that the file seems to have, which is logged."""
    _file: BinaryIO | None = field(default=None, init=False)
    _is_guess_logged: bool = field(default=False, init=False)
    _records: dict[str, tuple[int, Iterator[object]]] = field(default_factory=dict, init=False, repr=False)
    """Records that are still to be read, with the number of those that were, by their path in the document."""

    @property
    def shown(self) -> Path:
        """Name of the file in messages."""
        return self.name or self.path

    def size(self) -> int:
        """Return the number of bytes of the file."""
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise self.error(f"the file cannot be read: {error.strerror or error}") from error

    def position(self) -> int:
        """Return the number of bytes of the file that were read since it was last opened."""
        return 0 if self._file is None or self._file.closed else self._file.tell()

    def error(self, message: str, *, line: int | None = None) -> DataFileError:
        """Return the error that names the file."""
        return DataFileError(self.shown, message, line=line)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the file for reading its bytes, unpacked, and unsealed where devmem sealed it for an encrypted store.

        Raises:
            DataFileError: it cannot be read, now or while it is read.
        """
        try:
            with self.path.open("rb") as plain:
                file: BinaryIO = io.BytesIO(read_file(self.path)) if is_sealed(plain.read(HEADER_BYTES)) else plain
                file.seek(0)
                self._file = file
                is_packed = file.read(2) == _GZIP
                file.seek(0)
                yield (
                    cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", _Unpacked(self.shown, file)), _PART))
                    if is_packed
                    else file
                )
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.error(f"the gzip file is damaged or cut off: {error}") from error
        except OSError as error:
            raise self.error(f"the file cannot be read: {error.strerror or error}") from error

    def head(self) -> bytes:
        """Return the first bytes, unpacked."""
        with self.opened() as file:
            return file.read(_HEAD)

    def data(self) -> bytes:
        """Return all bytes, unpacked; raises `DataFileError` for more than 200 MB, as a small gzip file may have."""
        with self.opened() as file:
            data = file.read(LARGEST_WHOLE + 1)
        if len(data) > LARGEST_WHOLE:
            raise self.error(f"the file has more than {LARGEST_WHOLE:,} bytes; split it")
        return data

    def byte_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield all lines with their ends and 1-based numbers, a very long one in parts."""
        with self.opened() as file:
            number, is_new = 0, True
            while line := file.readline(_PART):
                number += is_new
                is_new = line.endswith(b"\n")
                yield number, line

    def text_lines(self) -> Iterator[str]:
        """Yield all lines of a text or a table with their ends, blank ones too; raises for what is not a text."""
        if self.encoding is None and self._is_utf8():
            for _, raw in self.raw_lines():
                yield raw.decode("utf-8")
            return
        with self.opened() as file:
            data = file.read()
        yield from io.StringIO(self.decoded(data))

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines that are not blank, each with its 1-based number; raises for one that is not UTF-8."""
        for number, raw in self.raw_lines():
            try:
                line = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise self.error(
                    f"the line is not UTF-8 ({error.reason}); convert the file to it", line=number
                ) from error
            if line:
                yield number, line

    def raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with their 1-based numbers; raises `DataFileError` for one that would fill the memory."""
        number = 0
        with self.opened() as file:
            while raw := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(raw) > _LONGEST_LINE:
                    raise self.error(f"the line has more than {_LONGEST_LINE:,} bytes; split its text", line=number)
                yield number, raw.removeprefix(_MARK) if number == 1 else raw

    def is_text(self) -> bool:
        """Whether the file begins as a text does, or its encoding is named."""
        try:
            detect_encoding(self.head())
        except UnreadableError:
            return self.encoding is not None
        return True

    def _is_utf8(self) -> bool:
        decoder = codecs.getincrementaldecoder("utf-8")()
        with self.opened() as file:
            part = file.read(_PART)
            if not seems_utf8(part[:_HEAD]):
                return False
            try:
                while part:
                    decoder.decode(part)
                    part = file.read(_PART)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                return False
        return True

    def decoded(self, data: bytes, declared: str = "") -> str:
        """Return the text of the file's bytes, every line end a line feed.

        Args:
            data: the bytes.
            declared: encoding that the document itself names; it counts where no other is given and it fits.

        Raises:
            DataFileError: the bytes are not text, or not of the encoding that is given.
        """
        if self.encoding is None and declared and (text := decode_as_declared(data, declared)) is not None:
            return text
        try:
            text = decode_text(data, self.encoding)
        except UnreadableError as error:
            raise self.error(str(error)) from error
        if self.encoding is None and not self._is_guess_logged and (guess := describe_guess(data)):
            self._is_guess_logged = True
            _LOG.warning("%s %s: where that is wrong, name its encoding (--encoding)", self.shown, guess)
        return text

    def document(self) -> object:
        """Return the whole file as one JSON document, in which the lists of records of a large one are `LongList`s.

        Raises:
            DataFileError: it is not JSON.
        """
        with self.opened() as file:
            raw = file.read(_LONGEST_LINE + 1)
            if len(raw) > _LONGEST_LINE and (found := self._outline()) is not None:
                return found
            raw = (raw + file.read()).removeprefix(_MARK)
        try:
            return parse_json(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise self.error(
                f"the file is not UTF-8 ({error.reason}), as JSON has to be; convert it", line=line
            ) from error
        except json.JSONDecodeError as error:
            raise self.error(f"the file is not JSON: {error.msg}", line=error.lineno) from error
        except ValueError as error:
            raise self.error(f"the file is not usable JSON: {error}") from error

    def _outline(self) -> object:
        """Return a large document without the elements of its lists of records; None where Python has to read it."""
        import ijson

        builder, counts = ijson.ObjectBuilder(), Counter[str]()
        records: LongList | None = None
        depth = 0
        with self._json_file() as file:
            try:
                for path, event, value in ijson.parse(file, buf_size=_SMALL_PART, use_float=True):
                    depth += (event in ("start_map", "start_array")) - (event in ("end_map", "end_array"))
                    if depth > _DEEPEST:
                        raise self.error("it is nested too deeply")
                    if records is None and event == "start_array" and path.rpartition(".")[2] in _RECORD_LISTS:
                        records = LongList(self, f"{path}.item", counts[path])
                        builder.event("string", records)
                    elif records is None:
                        builder.event(event, value)
                    elif f"{path}.item" == records.path and event == "end_array":
                        counts[path] += len(records)
                        records = None
                    elif path == records.path and event in _BEGINNINGS:
                        records.length += 1
            except ijson.JSONError as error:
                if _is_overflow(error):
                    return None
                raise self.error(f"the file is not JSON: {_reason(error)}") from error
        return builder.value

    def records(self, path: str, first: int, count: int) -> Iterator[object]:
        """Yield records of a large document that follow one another, from the place where the last ones ended.

        Args:
            path: of records, in the notation of `ijson`.
            first: number of records of this path before them.
            count: number of records.
        """
        import ijson

        def from_start() -> Iterator[object]:
            with self._json_file() as file:
                yield from ijson.items(file, path, buf_size=_PART, use_float=True)

        # Whoever asks meanwhile begins at the start of the file.
        at, elements = self._records.pop(path, (0, None))
        if elements is None or at > first:
            at, elements = 0, from_start()
        yield from islice(elements, first - at, first - at + count)
        self._records[path] = first + count, elements

    @contextmanager
    def _json_file(self) -> Iterator[BinaryIO]:
        is_marked = self.head().startswith(_MARK)
        with self.opened() as file:
            file.read(len(_MARK) * is_marked)
            yield file

    def elements(self) -> Iterator[object]:
        """Yield the elements of the JSON list that the file is, one by one, so that memory holds only one of them.

        Raises:
            DataFileError: the list cannot be read any further.
        """
        import ijson

        at = depth = 0
        builder = ijson.ObjectBuilder()
        with self._json_file() as file:
            try:
                for event, value in ijson.basic_parse(file, buf_size=_PART, use_float=True):
                    depth += (event in ("start_map", "start_array")) - (event in ("end_map", "end_array"))
                    if depth > _DEEPEST:
                        raise self.error(f"[{at}]: it is nested too deeply")
                    if depth == 0 or (depth == 1 and event == "start_array"):
                        continue
                    builder.event(event, value)
                    if depth == 1:
                        yield builder.value
                        at, builder = at + 1, ijson.ObjectBuilder()
            except ijson.JSONError as error:
                if self.size() > _LONGEST_LINE and not _is_overflow(error):
                    raise self.error(f"[{at}]: the file is not JSON from here on: {_reason(error)}") from error
                # Python's reader knows the line, and numbers of any size.
                rest = self.document()
                yield from rest[at:] if isinstance(rest, list) else ()


class LongList(Sequence[object]):
    """A list of records in a large document, which are read from the file whenever it is iterated."""

    def __init__(self, source: FileReader, path: str, first: int) -> None:
        self._source, self.path, self._first = source, path, first
        self.length = 0

    def __len__(self) -> int:
        """Return the number of records."""
        return self.length

    def __iter__(self) -> Iterator[object]:
        """Yield the records."""
        return self._source.records(self.path, self._first, self.length)

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - of a sequence, which has slices too
        """Return a record; each time the list is read up to there."""
        return next(islice(self, at, None))


LISTS: Final = (list, LongList)
"""Types of the lists of a JSON document."""


def _is_overflow(error: Exception) -> bool:
    """Whether the streaming reader failed at a number that only Python's can hold."""
    return "overflow" in _reason(error)


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return (reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)).strip().partition("\n")[0]


def decode_as_declared(data: bytes, declared: str) -> str | None:
    """Return the text, every line end a line feed; None where the bytes are not of the encoding, or it is unknown."""
    with suppress(LookupError, ValueError):
        name = codecs.lookup(declared).name
        # As browsers do: texts that are labelled so are mostly Windows-1252 or UTF-8.
        for each in ("utf-8", "cp1252") if name in ("iso8859-1", "ascii") else {name} - SLOW_CODECS:
            with suppress(UnreadableError):
                return decode_text(data, each)
    return None


def parse_json(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        json.JSONDecodeError: it is not JSON.
        ValueError: it is nested too deeply, or holds a number that JSON does not allow, or a huge one.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_whole_number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"it holds {name}, which JSON does not have; write null")


def _whole_number(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:
        raise ValueError(f"it holds a number of {len(digits):,} digits, which is too large") from error


class FileFormat(StrEnum):
    """Formats of data files."""

    AUTO = "auto"
    """Detected by the content, and of tables and texts by the name."""
    JSONL = "jsonl"
    """One JSON object a line: a text, an item, or a rescued write."""
    DEVALL = "devall"
    """A JSON list of items, as DevAll (ChatDev 2) keeps them, or of records; or the index of its file memory."""
    EXPORT = "export"
    """The output of `devmem export`."""
    CHATGPT = "chatgpt"
    """`conversations.json` of ChatGPT's export."""
    CLAUDE = "claude"
    """`conversations.json` of Claude's export."""
    CLAUDE_CODE = "claude-code"
    """Sessions of Claude Code, JSON lines."""
    CODEX = "codex"
    """Sessions of Codex, JSON lines."""
    SLACK = "slack"
    """A day of a channel in Slack's export."""
    WHATSAPP = "whatsapp"
    """A chat that WhatsApp exported, of Android or iOS: a message an item."""
    TELEGRAM = "telegram"
    """`result.json` of Telegram's export, of one chat or all."""
    DISCORD = "discord"
    """A channel as DiscordChatExporter writes it, JSON."""
    FACEBOOK = "facebook"
    """A chat of Facebook's or Instagram's export, JSON."""
    OPEN_WEBUI = "open-webui"
    """Chats of Open WebUI's export."""
    LANGCHAIN = "langchain"
    """LangChain's messages, a list or a state of LangGraph."""
    MEM0 = "mem0"
    """The result of mem0's `get_all`."""
    MCP_MEMORY = "mcp-memory"
    """The graph of the MCP project's memory server, JSON lines."""
    KEEP = "keep"
    """A note of Google Keep, JSON."""
    METAGPT = "metagpt"
    """MetaGPT's memory, message queue or brain memory, or a dump of devmem's messages."""
    SHAREGPT = "sharegpt"
    """ShareGPT's conversations, whose turns have `from` and `value`, a list or JSON lines."""
    OPENAI = "openai"
    """Messages of the chat completions API: a list, an object with `messages`, or such objects as JSON lines."""
    OUTBOX = "outbox"
    """Writes that waited for their store when the process ended, a SQLite file."""
    TEXTS = "texts"
    """A JSON list of texts."""
    TEXT = "text"
    """Plain text, a paragraph an item."""
    MARKDOWN = "markdown"
    """Markdown, a paragraph an item, with the headings that it stands under."""
    CSV = "csv"
    """A table whose first line names the columns, separated by commas, semicolons or tabs."""
    HTML = "html"
    """An HTML page, a paragraph, list or table an item, with the title and the headings."""
    MBOX = "mbox"
    """A mailbox, as Gmail, Thunderbird and Apple Mail export it: a mail an item."""
    EML = "eml"
    """One mail."""
    ICS = "ics"
    """A calendar: an event an item."""
    VCARD = "vcard"
    """Contacts: a person or an organisation an item."""
    TSV = "tsv"
    """A table whose columns are separated by tabs."""
