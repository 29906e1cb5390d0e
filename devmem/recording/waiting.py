"""Records that wait beside a store: they were acknowledged, and it does not have them yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

from devmem.recording.journal_files import journal_paths, lock_file, read_position
from devmem.text.atomic_write import OWNER_ONLY

REFUSED: Final = "refused.jsonl"
"""File of the records that a store refused, in the folder of the journals; `devmem import` reads it."""
_LONGEST_WAIT: Final = 30.0
"""Seconds that a process waits while another one changes the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """A journal as it lies in its folder."""

    path: Path
    waiting_bytes: int
    """Number of bytes that the store has not acknowledged."""
    in_use: bool
    """Whether a living process writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRecords:
    """The journals of a store, and what it refused."""

    folder: Path
    journals: tuple[JournalState, ...]
    """The oldest first."""
    refused: int
    """Number of records that the store refused while it took others."""

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that the store has not acknowledged."""
        return sum(journal.waiting_bytes for journal in self.journals)

    @property
    def abandoned(self) -> int:
        """Number of journals with waiting records whose processes are gone; the next recorder sends them."""
        return sum(1 for journal in self.journals if journal.waiting_bytes and not journal.in_use)


def journal_folder(location: str | Path) -> Path:
    """Return the usual folder of the journals of a store whose items are in a file: beside it."""
    return Path(f"{location}.journals")


def refused_lock(folder: Path) -> FileLock:
    """Return the lock of the file of refused records, which whoever appends to it or rewrites it holds.

    Acquiring it raises `filelock.Timeout`, an `OSError`, where another process does not release it.
    """
    return FileLock(folder / f"{REFUSED}.lock", timeout=_LONGEST_WAIT, mode=OWNER_ONLY)


def waiting_records(folder: Path) -> WaitingRecords:
    """Report what waits in a folder of journals; nothing where there is no such folder.

    Raises:
        OSError: the folder or a journal cannot be read.
    """
    states = (_state_of(path) for path in journal_paths(folder))
    return WaitingRecords(
        folder=folder,
        journals=tuple(state for state in states if state is not None),
        refused=_count_lines(folder / REFUSED),
    )


def _state_of(path: Path) -> JournalState | None:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            in_use = not lock_file(file)
    except FileNotFoundError:
        return None
    return JournalState(path=path, waiting_bytes=max(size - read_position(path), 0), in_use=in_use)


def _count_lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(1 for _ in file)
    except FileNotFoundError:
        return 0
