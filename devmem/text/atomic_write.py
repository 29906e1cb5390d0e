"""Atomic replacement of files: a reader, or a restart after a crash, finds the old content or the new one, whole."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

if sys.platform != "win32":  # There, a file that is open cannot be removed anyway.
    import fcntl

OWNER_ONLY: Final = 0o600
"""Mode of new files: a memory holds what people said."""
_CREATING: Final = threading.Lock()
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part$")


def replace_file(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write the parts to a new file beside `path` and rename it to `path`, durably.

    A new file can be read by its owner only; one that is replaced keeps its mode. A symbolic link is followed.

    Raises:
        OSError: the file cannot be written. `path` is unchanged then, as it is when making a part raises.
    """
    path = Path(os.path.realpath(path))
    unfinished, file = _create_beside(path)
    try:
        with file:
            _copy_mode(path, file)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # An open file cannot be renamed there; elsewhere the lock holds until it has its name.
            unfinished.replace(path)
    except BaseException:
        # BaseException: also an interrupt leaves no partial file behind.
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_leftovers(path: Path) -> int:
    """Remove the partial files that killed writers of `path` left behind; return their number.

    Files of writers that are still at work stay.

    Args:
        path: a file that `replace_file` replaces, or a folder of such files.

    Raises:
        OSError: the folder cannot be listed, or a leftover cannot be removed.
    """
    path = Path(os.path.realpath(path))
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        return 0
    named = [each for each in folder.iterdir() if _UNFINISHED.search(each.name)]
    return sum(_remove_unused(each) for each in named if folder == path or _UNFINISHED.sub("", each.name) == path.name)


def create_private(path: str, flags: int) -> int:
    """Open a file that, if it is new, only its owner can read: the `opener` of the built-in `open`."""
    return os.open(path, flags, OWNER_ONLY)


def create_empty(path: Path) -> None:
    """Create an empty file that only its owner can read; one that is there already stays as it is.

    SQLite gives the files beside a database the mode of the database.

    Raises:
        OSError: the file cannot be created.
    """
    # Closing a file releases every lock that the process has on it: nobody may open it in between.
    with _CREATING:
        try:
            os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
        except FileExistsError:
            return


def _create_beside(path: Path) -> tuple[Path, BinaryIO]:
    """Create a new file with a name of its own, locked so that `remove_leftovers` knows that it is in use."""
    while True:
        unfinished = path.with_name(f"{path.name}.{uuid4().hex}.part")
        file = open(unfinished, "xb", opener=create_private)  # noqa: SIM115 - the caller closes it
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have taken it for a leftover before it was locked.
        if os.fstat(file.fileno()).st_nlink:
            return unfinished, file
        file.close()


def _remove_unused(unfinished: Path) -> bool:
    """Remove a partial file unless it is being written; report whether it was removed."""
    try:
        if sys.platform == "win32":
            unfinished.unlink()
        else:
            with unfinished.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                unfinished.unlink()
    except (BlockingIOError, FileNotFoundError):
        return False  # still being written, or renamed meanwhile
    except PermissionError:
        if sys.platform == "win32":
            return False  # still being written
        raise
    return True


def _copy_mode(path: Path, file: BinaryIO) -> None:
    if sys.platform != "win32" and path.exists():
        os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power loss; Windows neither needs nor allows it."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
