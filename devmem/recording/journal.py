"""A local journal: what is appended survives the death of the process, before any store has it.

One file a process, one line a record: a CRC-32 as eight hexadecimal digits, a space, JSON, a line feed. A line is
written with one system call, so a kill leaves it whole or not at all. A second file has the number of bytes that the
store has acknowledged; a lock file tells a journal of a living process from one that was left behind.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from filelock import FileLock, Timeout

from devmem.errors import JournalError
from devmem.text.atomic_write import OWNER_ONLY

SUFFIX: Final = ".journal"
Record = Sequence[Any]
"""A record in its JSON form."""
_LOG: Final = logging.getLogger(__name__)
_CHUNK: Final = 1 << 20
"""Bytes that are read at once."""
_TRUNCATE_FROM: Final = 1 << 24
"""A journal of more bytes, all of them acknowledged, starts again from the beginning of its file."""
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_HEAD: Final = 9
"""Length of the checksum and the space behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that follow one another in a journal."""

    records: Sequence[Record]
    end: int
    """Position behind the last of them, in bytes."""


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
        self.path = folder / f"{uuid4().hex}{SUFFIX}"
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._owner = FileLock(_lock_path(self.path))
            self._owner.acquire(timeout=0)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        except OSError as error:
            raise JournalError(self.path, f"cannot be created: {error}") from error
        self._end = self._acknowledged = 0

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that the store has not acknowledged."""
        return self._end - self._acknowledged

    def append(self, record: Record) -> bool:
        """Append a record; it survives the death of the process when this returns.

        Returns:
            Whether it was appended; False when `max_bytes` are waiting.

        Raises:
            JournalError: the file cannot be written, as when the disk is full; it is as before.
        """
        line = encode_line(record)
        with self._lock:
            if self.waiting_bytes + len(line) > self._max_bytes:
                return False
            try:
                written = os.write(self._file, line)
            except OSError as error:
                raise JournalError(self.path, f"cannot be written: {error}") from error
            if written < len(line):
                os.ftruncate(self._file, self._end)
                raise JournalError(self.path, "cannot be written: the disk is full")
            self._end += written
        return True

    def next_batch(self, limit: int) -> Batch | None:
        """Return the records that wait longest, at most `limit`; None when none waits."""
        with self._lock:
            start, end = self._acknowledged, self._end
        return None if start == end else read_batch(self._file, self.path, start, end, limit)

    def acknowledge(self, end: int) -> None:
        """Note that the store has everything up to a position."""
        with self._lock:
            self._acknowledged = end
            if end != self._end or end < _TRUNCATE_FROM:
                _write_position(self.path, end)
                return
            # The position first: killed in between, everything is sent again, which is harmless.
            _write_position(self.path, 0)
            os.ftruncate(self._file, 0)
            self._end = self._acknowledged = 0

    def close(self) -> None:
        """Release the file, and delete it when nothing waits."""
        with self._lock:
            os.close(self._file)
            if self._end == self._acknowledged:
                _delete(self.path)
        self._owner.release()
        if not self.path.exists():
            Path(self._owner.lock_file).unlink(missing_ok=True)


class AbandonedJournal:
    """A journal of a process that is gone, opened by the one that reads it."""

    def __init__(self, path: Path, owner: FileLock) -> None:
        """Take over a journal whose lock is held by `owner`."""
        self.path, self._owner = path, owner
        self._file = os.open(path, os.O_RDONLY)
        self._end = os.fstat(self._file).st_size
        self._acknowledged = _read_position(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        done = self._acknowledged >= self._end
        if done:
            _delete(self.path)
        self._owner.release()
        if done:
            Path(self._owner.lock_file).unlink(missing_ok=True)

    def next_batch(self, limit: int) -> Batch | None:
        """Return the records that wait longest, at most `limit`; None when none waits."""
        if self._acknowledged >= self._end:
            return None
        return read_batch(self._file, self.path, self._acknowledged, self._end, limit)

    def acknowledge(self, end: int) -> None:
        """Note that the store has everything up to a position."""
        self._acknowledged = end
        _write_position(self.path, end)


def abandoned_journals(folder: Path) -> Iterator[AbandonedJournal]:
    """Return the journals whose processes are gone, each locked while it is read, the oldest first."""
    paths = sorted(folder.glob(f"*{SUFFIX}"), key=_modified) if folder.is_dir() else []
    for path in paths:
        owner = FileLock(_lock_path(path))
        try:
            owner.acquire(timeout=0)
        except Timeout:
            continue
        if not path.exists():
            owner.release()
            continue
        with AbandonedJournal(path, owner) as journal:
            yield journal


def encode_line(record: Record) -> bytes:
    """Return a record as a line of a journal."""
    body = _encode(record).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_batch(file: int, path: Path, start: int, end: int, limit: int) -> Batch:
    """Read records of a journal.

    A damaged line is left out and logged; a last line that was not finished is passed over, since it was never
    acknowledged to anybody.
    """
    records: list[Record] = []
    data, at = b"", start
    while len(records) < limit and at < end:
        if b"\n" not in data:
            more = os.pread(file, min(_CHUNK, end - at - len(data)), at + len(data))
            if not more:
                return Batch(records=records, end=end)
            data += more
            continue
        line, _, data = data.partition(b"\n")
        at += len(line) + 1
        if (record := _decode_line(line)) is None:
            _LOG.error("%s: the line that ends at byte %d is damaged and was left out", path, at)
        else:
            records.append(record)
            time.sleep(0)
    return Batch(records=records, end=at)


def _decode_line(line: bytes) -> Record | None:
    try:
        if int(line[: _HEAD - 1], 16) != zlib.crc32(line[_HEAD:]):
            return None
        record: Record = json.loads(line[_HEAD:])
    except ValueError:
        return None
    return record


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _position_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.position")


def _read_position(path: Path) -> int:
    try:
        return int(_position_path(path).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        # What is sent again is stored once, by its id.
        return 0


def _write_position(path: Path, position: int) -> None:
    # Neither atomic nor durable: with an older or a shorter number, or none, some records are sent again.
    try:
        _position_path(path).write_text(str(position), encoding="ascii")
    except OSError as error:
        _LOG.warning("%s: records are sent again at the next start: %s", path, error)


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    _position_path(path).unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
