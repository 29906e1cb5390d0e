"""A local journal: what is appended survives the death of the process, before any store has it.

One file a process. A line is written with one system call, so a kill leaves it whole or not at all. The process that
writes the file holds a lock on it, which tells a journal in use from one that was left behind. A second file has the
number of bytes that the store has acknowledged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final, Self

from devmem.errors import JournalError
from devmem.recording.journal_files import (
    SUFFIX,
    create_journal,
    delete_journal,
    journal_paths,
    lock_file,
    read_position,
    write_position,
    write_whole,
)
from devmem.recording.lines import Batch, read_batch

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
