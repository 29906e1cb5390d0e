"""Reading a data file, gzipped or not: line by line, or as one JSON document."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, cast

from devmem.encryption import HEADER_BYTES, is_database, is_sealed, read_file
from devmem.errors import DataFileError
from devmem.text.files import UnreadableError, decode_text, describe_guess, detect_encoding, seems_utf8

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
SLOW_CODECS: Final = frozenset({"punycode", "idna"})
"""Encodings of names of hosts, which take time quadratic in the length of a text."""


def is_bomb(packed: int, unpacked: int) -> bool:
    """Whether a file of a packed and an unpacked size (bytes) is one that only fills memory or disk."""
    return unpacked > LARGEST_WHOLE and unpacked > _LARGEST_RATIO * packed


class _Unpacked(gzip.GzipFile):
    """The bytes of a gzip file; reading one that unpacks to far more than texts do raises `DataFileError`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        super().__init__(fileobj=file)
        self._path, self._packed = path, os.fstat(file.fileno()).st_size

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes, or all the rest."""
        if size is not None and size >= 0:
            return self._checked(super().read(size))
        return b"".join(iter(lambda: self.read(_PART), b""))

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line, or up to `size` bytes of it."""
        if size is not None and size >= 0:
            return self._checked(super().readline(size))
        parts: list[bytes] = []
        while not parts or (parts[-1] and not parts[-1].endswith(b"\n")):
            parts.append(self._checked(super().readline(_PART)))
        return b"".join(parts)

    def _checked(self, part: bytes) -> bytes:
        if is_bomb(self._packed, self.tell()):
            raise DataFileError(
                self._path, f"it unpacks to more than {_LARGEST_RATIO} times its size; unpack it first if that is right"
            )
        return part


def _readable(path: Path) -> BinaryIO:
    """Open a file; one that devmem sealed, as it does with the unsaved writes of an encrypted store, is unsealed."""
    file = path.open("rb")
    if is_sealed(file.read(HEADER_BYTES)):
        file.close()
        return io.BytesIO(read_file(path))
    file.seek(0)
    return file


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open the file for reading its bytes, unpacked.

    Raises:
        DataFileError: it cannot be read, now or while it is read.
    """
    try:
        with _readable(path) as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            if not packed:
                yield file
                return
            with _Unpacked(path, file) as unpacked:
                yield cast("BinaryIO", unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(path, f"the gzip file is damaged or cut off: {error}") from error
    except OSError as error:
        raise DataFileError(path, f"the file cannot be read: {error.strerror or error}") from error


def is_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database; raises `DataFileError` when it cannot be read."""
    with _opened(path) as file:
        return is_database(file.read(HEADER_BYTES))


def is_text(path: Path) -> bool:
    """Whether a file begins as a text does; raises `DataFileError` when it cannot be read."""
    with _opened(path) as file:
        head = file.read(_HEAD)
    try:
        detect_encoding(head)
    except UnreadableError:
        return False
    return True


def read_text_lines(
    path: Path, encoding: str | None = None, *, shown: Path | None = None, quiet: bool = False
) -> Iterator[str]:
    """Return all lines of a plain text or a table with their ends, blank ones too.

    Args:
        path: the file.
        encoding: None takes UTF-8, or else the encoding that the file seems to have, which is logged.
        shown: name of the file in the log; None is its path.
        quiet: whether a guess is not logged.

    Raises:
        DataFileError: the file cannot be read, is not a text, or not of this encoding.
    """
    if encoding is None and is_utf8(path):
        with _opened(path) as file:
            for number, raw in _bounded_lines(path, file):
                yield (raw.removeprefix(_MARK) if number == 1 else raw).decode("utf-8")
        return
    with _opened(path) as file:
        data = file.read()
    yield from io.StringIO(decode_data(data, encoding, path=path, shown=shown, quiet=quiet))


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked; raises `DataFileError` when it cannot be read."""
    with _opened(path) as file:
        return file.read(_HEAD)


def read_data(path: Path) -> bytes:
    """Return all bytes of a file, unpacked.

    Raises:
        DataFileError: it cannot be read, or has more than 200 MB, as a small gzip file may.
    """
    with _opened(path) as file:
        data = file.read(LARGEST_WHOLE + 1)
    if len(data) > LARGEST_WHOLE:
        raise DataFileError(path, f"the file has more than {LARGEST_WHOLE:,} bytes; split it")
    return data


def read_byte_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield all lines with their ends and 1-based numbers, a very long one in parts.

    Raises:
        DataFileError: the file cannot be read, now or while it is read.
    """
    with _opened(path) as file:
        number, is_new = 0, True
        while line := file.readline(_PART):
            number += is_new
            is_new = line.endswith(b"\n")
            yield number, line


def decode_data(
    data: bytes, encoding: str | None, *, path: Path, shown: Path | None = None, quiet: bool = False
) -> str:
    """Return the text of a file's bytes, every line end a line feed; arguments are those of `read_text_lines`.

    Raises:
        DataFileError: the bytes are not text, or not of this encoding.
    """
    try:
        text = decode_text(data, encoding)
        if encoding is None and not quiet and (guess := describe_guess(data)):
            _LOG.warning("%s %s: where that is wrong, name its encoding (--encoding)", shown or path, guess)
    except UnreadableError as error:
        raise DataFileError(path, str(error)) from error
    return text


def decode_declared(data: bytes, declared: str, encoding: str | None, *, path: Path, shown: Path) -> str:
    """Return the text of a document that names its own encoding, which counts where no other is given and it fits.

    Raises:
        DataFileError: the bytes are not text, or not of the encoding that is given.
    """
    if encoding is None and declared and (text := decode_as_declared(data, declared)) is not None:
        return text
    return decode_data(data, encoding, path=path, shown=shown)


def decode_as_declared(data: bytes, declared: str) -> str | None:
    """Return the text, every line end a line feed; None where the bytes are not of the encoding, or it is unknown."""
    try:
        name = codecs.lookup(declared).name
        if name in ("iso8859-1", "ascii"):
            # As browsers do: texts that are labelled so are mostly Windows-1252 or UTF-8.
            name = "utf-8" if _is_valid_utf8(data) else "cp1252"
        return None if name in SLOW_CODECS else decode_text(data, name)
    except (LookupError, UnreadableError, ValueError):
        return None


def _is_valid_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_utf8(path: Path) -> bool:
    """Whether all bytes of a file are UTF-8; raises `DataFileError` when it cannot be read."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _opened(path) as file:
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


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Return the lines that are not blank, each with its 1-based number.

    Raises:
        DataFileError: the file cannot be read, or a line is not UTF-8.
    """
    with _opened(path) as file:
        for number, raw in _bounded_lines(path, file):
            try:
                line = raw.removeprefix(_MARK).decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise DataFileError(
                    path, f"the line is not UTF-8 ({error.reason}); convert the file to it", line=number
                ) from error
            if line:
                yield number, line


def count_lines(path: Path) -> int:
    """Count the lines that are not blank; raises as `read_lines` does, but for text that is not UTF-8."""
    with _opened(path) as file:
        return sum(1 for _, raw in _bounded_lines(path, file) if raw.strip())


def _bounded_lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers; raises `DataFileError` for one that no memory would be made of in time."""
    number = 0
    while raw := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(raw) > _LONGEST_LINE:
            raise DataFileError(path, f"the line has more than {_LONGEST_LINE:,} bytes; split its text", line=number)
        yield number, raw


def read_document(path: Path) -> object:
    """Read the whole file as one JSON document.

    Raises:
        DataFileError: the file cannot be read, or is not JSON.
    """
    with _opened(path) as file:
        raw = file.read()
    try:
        return parse_json(raw.removeprefix(_MARK).decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataFileError(
            path, f"the file is not UTF-8 ({error.reason}), which JSON has to be; convert it", line=line
        ) from error
    except json.JSONDecodeError as error:
        raise DataFileError(path, f"the file is not JSON: {error.msg}", line=error.lineno) from error
    except ValueError as error:
        raise DataFileError(path, f"the file is not usable JSON: {error}") from error


def parse_line(path: Path, number: int, line: str) -> object:
    """Parse one line as JSON; raises `DataFileError` for an invalid one."""
    try:
        return parse_json(line)
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataFileError(path, f"the line is not JSON: {reason}", line=number) from error


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
    LANGCHAIN = "langchain"
    """LangChain's messages, a list or a state of LangGraph."""
    MEM0 = "mem0"
    """The result of mem0's `get_all`."""
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
    TSV = "tsv"
    """A table whose columns are separated by tabs."""
