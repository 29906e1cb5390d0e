"""The files of journals: creating, locking and writing them, and the position up to which the store has them."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from devmem.text.atomic_write import create_private

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

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


def lock_file(file: BinaryIO | FileIO) -> bool:
    """Lock a file until it is closed; return whether nobody else has it locked."""
    try:
        if sys.platform == "win32":
            file.seek(1 << 62)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _position_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.position")


def read_position(path: Path) -> int:
    """Return the number of bytes that the store has acknowledged."""
    try:
        return int(_position_path(path).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        # What is sent again is stored once, by its id.
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
