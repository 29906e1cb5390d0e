"""A local journal: appended records survive the death of the process, before any store has it.

One file a process. A line is written with one system call, so a kill leaves it whole or not at all. The process that
writes the file holds a lock on it, which tells a journal in use from one that was left behind. A second file has the
number of bytes that the store has acknowledged.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final, Self
from uuid import uuid4

from pydantic_core import from_json, to_json

from devmem.errors import JournalError
from devmem.text.files import create_private, lock_file

SUFFIX: Final = ".journal"
_LOG: Final = logging.getLogger(__name__)


def _system_write() -> Callable[[int, bytes], int]:
    """Return a `write` that keeps the interpreter's lock.

    `os.write` releases it, and a thread that computes, such as the one that stores the records, takes it then and keeps
    it for a time slice of 5 ms: a thousand times as long as it takes to copy a line into the page cache.
    """
    if sys.platform == "win32":
        return os.write
    write = ctypes.PyDLL(None, use_errno=True).write
    write.argtypes, write.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t), ctypes.c_ssize_t

    def keeping_the_lock(file: int, data: bytes) -> int:
        written: int = write(file, data, len(data))
        if written < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return written

    return keeping_the_lock


write_whole: Final = _system_write()
"""Writes bytes with one system call, and returns how many of them were written; raises `OSError`."""


def journal_paths(folder: Path) -> list[Path]:
    """Return the journals of a folder, the oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"), key=_modified) if folder.is_dir() else []


def create_journal(folder: Path) -> tuple[Path, FileIO]:
    """Create and lock a new journal."""
    while True:
        path = folder / f"{uuid4().hex}{SUFFIX}"
        file = FileIO(path, "x+", opener=_create_for_appending)
        # Another process may have taken it for an abandoned one before it was locked.
        if lock_file(file) and os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()


def _create_for_appending(path: str, flags: int) -> int:
    return create_private(path, flags | os.O_APPEND)


def _position_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.position")


def read_position(path: Path) -> int:
    """Return the number of bytes that the store has acknowledged."""
    try:
        return int(_position_path(path).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        # A record that is sent again is stored once, by its id.
        return 0


def write_position(path: Path, position: int) -> None:
    """Note the number of bytes that the store has acknowledged."""
    # Neither atomic nor durable: with an older or a shorter number, or none, some records are sent again.
    try:
        with open(_position_path(path), "w", encoding="ascii", opener=create_private) as file:
            file.write(str(position))
    except OSError as error:
        _LOG.warning("%s: records are sent again at the next start: %s", path, error)


def delete_journal(path: Path) -> None:
    """Delete a journal and what belongs to it."""
    path.unlink(missing_ok=True)
    _position_path(path).unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


Record = Sequence[Any]
"""A record in its JSON form."""
_HEAD: Final = 9
"""Length of the checksum and the space behind it."""
_CHUNK: Final = 1 << 18
"""Bytes that are read at once."""
_SHARE: Final = 8
"""Records that are read before other threads get the interpreter, for which they would wait a whole time slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that follow one another in a journal."""

    records: Sequence[Record]
    end: int
    """Position behind the last of them, in bytes."""


def encode_line(record: Record) -> bytes:
    """Return a record as a line.

    Raises:
        TypeError: a value has no JSON form.
        ValueError: a value cannot be written.
    """
    body = to_json(record)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode_line(line: bytes) -> Record | None:
    """Return the record of a line without its line feed; None when the line is damaged."""
    try:
        body = line[_HEAD:]
        if int(line[: _HEAD - 1], 16) != zlib.crc32(body):
            return None
        record = from_json(body)
    except ValueError:
        return None
    return record if isinstance(record, list) else None


def read_batch(file: BinaryIO | FileIO, path: Path, start: int, end: int, limit: int) -> Batch:
    """Read records of a journal, at most `limit`, between two positions in bytes.

    A damaged line is left out and logged; a last line that was not finished is passed over, since it was never
    acknowledged to anybody.
    """
    records: list[Record] = []
    file.seek(start)
    data, at = b"", start
    while len(records) < limit and at < end:
        line, feed, rest = data.partition(b"\n")
        if not feed:
            more = file.read(min(_CHUNK, end - at - len(data)))
            if not more:
                return Batch(records=records, end=end)
            data += more
            continue
        data = rest
        at += len(line) + 1
        if (record := decode_line(line)) is None:
            _LOG.error("%s: the line that ends at byte %d is damaged and was left out", path, at)
            continue
        records.append(record)
        if len(records) % _SHARE == 0:
            time.sleep(0)
    return Batch(records=records, end=at)


_TRUNCATE_FROM: Final = 1 << 24
"""A journal of more bytes, all of them acknowledged, starts again from the beginning of its file."""


class Journal:
    """The journal of this process. Appending is safe from several threads; reading is for one reader."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        """Create the journal's file.

        Args:
            folder: where the journals of all processes are; created where it is missing.
            max_bytes: maximum number of bytes that wait for the store.

        Raises:
            JournalError: the file cannot be created.
        """
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._end = self._acknowledged = 0
        self.appended = 0
        """Number of records that were appended."""
        self._closed = self._torn = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path, self._file = create_journal(folder)
            self._reader = self._open_reader()
        except OSError as error:
            raise JournalError(folder, f"no journal can be created: {error}") from error
        self._descriptor = self._file.fileno()

    def _open_reader(self) -> FileIO:
        """Open the file for reading: now, since the process may have no descriptor left later.

        It is unbuffered, since the file is truncated meanwhile.
        """
        try:
            return FileIO(self.path)
        except OSError:
            self._file.close()
            delete_journal(self.path)
            raise

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that the store has not acknowledged."""
        return self._end - self._acknowledged

    def append(self, line: bytes) -> bool:
        """Append a line; it survives the death of the process when this returns.

        Returns:
            Whether it was appended; False when `max_bytes` are waiting.

        Raises:
            JournalError: the file cannot be written, as when the disk is full, or is closed; it is as before.
        """
        with self._lock:
            if self._closed:
                raise JournalError(self.path, "cannot be written: it is closed")
            if self._end - self._acknowledged + len(line) > self._max_bytes:
                return False
            if self._torn:
                line = b"\n" + line
            try:
                written = write_whole(self._descriptor, line)
            except OSError as error:
                raise JournalError(self.path, f"cannot be written: {error}") from error
            if written < len(line):
                self._withdraw(written)
                raise JournalError(self.path, "cannot be written: the disk is full")
            self._torn = False
            self._end += written
            self.appended += 1
        return True

    def _withdraw(self, written: int) -> None:
        """Remove the beginning of a line whose end found no room, or have the next line begin behind it."""
        try:
            self._file.truncate(self._end)
        except OSError:
            self._end += written
            self._torn = True

    def next_batch(self, limit: int) -> Batch | None:
        """Return the records that wait longest, at most `limit`; None when none waits."""
        with self._lock:
            start, end = self._acknowledged, self._end
        if start == end:
            return None
        return read_batch(self._reader, self.path, start, end, limit)

    def acknowledge(self, end: int) -> None:
        """Note that the store has everything up to a position."""
        with self._lock:
            self._acknowledged = end
            if end != self._end or end < _TRUNCATE_FROM:
                write_position(self.path, end)
                return
            # The position first: killed in between, everything is sent again, which is harmless.
            write_position(self.path, 0)
            self._file.truncate(0)
            self._end = self._acknowledged = 0

    def close(self) -> None:
        """Release the file, and delete it when nothing waits."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._end == self._acknowledged:
                delete_journal(self.path)
            self._file.close()
            self._reader.close()

    def close_in_child(self) -> None:
        """Close the file in a forked child, which shares its lock with the parent; the journal stays the parent's."""
        self._closed = True
        self._file.close()
        self._reader.close()


class AbandonedJournal:
    """A journal of a process that is gone, opened and locked by the one that reads it."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self._end = os.fstat(file.fileno()).st_size
        self._acknowledged = read_position(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._acknowledged >= self._end:
            delete_journal(self.path)
        self._file.close()

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that the store has not acknowledged."""
        return max(self._end - self._acknowledged, 0)

    def next_batch(self, limit: int) -> Batch | None:
        """Return the records that wait longest, at most `limit`; None when none waits."""
        if self._acknowledged >= self._end:
            return None
        return read_batch(self._file, self.path, self._acknowledged, self._end, limit)

    def acknowledge(self, end: int) -> None:
        """Note that the store has everything up to a position."""
        self._acknowledged = end
        write_position(self.path, end)


def has_journals(folder: Path) -> bool:
    """Whether there is a journal in a folder, in use or left behind."""
    return next(folder.glob(f"*{SUFFIX}"), None) is not None


def abandoned_journals(folder: Path) -> Iterator[AbandonedJournal]:
    """Return the journals whose processes are gone, each locked while it is read, the oldest first.

    Raises:
        OSError: the folder or a journal cannot be read.
    """
    for path in journal_paths(folder):
        try:
            file = path.open("rb")
        except FileNotFoundError:
            continue
        # Another process may have sent and deleted it before it was locked.
        if not lock_file(file) or not os.fstat(file.fileno()).st_nlink:
            file.close()
            continue
        with AbandonedJournal(path, file) as journal:
            yield journal
