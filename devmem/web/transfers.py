"""Files that a browser sends to be imported, checked before anything is stored, and exports that it downloads."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import devmem
from devmem.errors import DataFileError, DevmemError
from devmem.model.items import ANY
from devmem.stores.abilities import every_item, record_export
from devmem.transfer.exporting import json_parts, markdown_parts, snapshot_of
from devmem.transfer.filling import Filler, RecordSummary
from devmem.transfer.importing.folders import data_files
from devmem.transfer.importing.formats import DataFile, open_data
from devmem.web.desk import Desk

_LOG = logging.getLogger(__name__)
_LONGEST_NAME: Final = 100
EXPORTS: Final = {"json": json_parts, "markdown": markdown_parts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that was sent and checked, and may be imported."""

    token: str
    name: str
    """Its own name, for messages."""
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A file whose records were read."""

    name: str
    format: str
    summary: RecordSummary
    notes: list[str]
    """Parts that are left out, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Outcome of an import."""

    counts: Counter[str]
    notes: list[str]
    items: int
    """Number of items that the store has now."""


class Transfers:
    """Imports and exports of a page. Thread-safe; of several uploads the last one can be imported."""

    def __init__(self, desk: Desk) -> None:
        """Take the desk that says what may be reached."""
        self._desk = desk
        self._lock = threading.Lock()
        self._upload: Upload | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="devmem-"))
        # Also at the end of a process that is interrupted.
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def check_may_import(self) -> None:
        """Refuse an import where nothing may be changed, or only within a user's scope, which a file need not keep.

        Raises:
            ReadOnlyPageError: nothing may be changed.
            ValueError: the page is bound to a user.
        """
        self._desk.check_writable()
        if self._desk.user is not None:
            raise ValueError("a page that is bound to a user imports nothing, since a file may hold items of others")

    def keep(self, file: BinaryIO, name: str) -> Upload:
        """Copy a file that was sent, in pieces, into a folder that only this user reads; the upload before it goes.

        Raises:
            OSError: it cannot be written, as where the disk is full; nothing of it is left, and the one before stays.
        """
        token = secrets.token_urlsafe(16)
        own = re.sub(r"[^\w.\- ]", "_", name.replace("\\", "/").rsplit("/", 1)[-1]).strip(". ")[-_LONGEST_NAME:]
        path = self._folder / token / (own or "upload")
        path.parent.mkdir()
        try:
            with path.open("wb") as copy:
                shutil.copyfileobj(file, copy)
        except OSError:
            shutil.rmtree(path.parent)
            raise
        upload = Upload(token=token, name=path.name, path=path)
        with self._lock:
            former, self._upload = self._upload, upload
        if former is not None:
            shutil.rmtree(former.path.parent)
        return upload

    def find(self, token: str) -> Upload:
        """Return the upload with a token.

        Raises:
            ValueError: it was imported, or another one came after it.
        """
        with self._lock:
            if self._upload is None or self._upload.token != token:
                raise ValueError("this file is no longer here; choose it again")
            return self._upload

    def check(self, upload: Upload) -> list[CheckedFile]:
        """Read every record of an upload and store none.

        Raises:
            ValueError: a record cannot be used; the message names the file and the line.
        """
        checked: list[CheckedFile] = []
        with _opened(upload) as files:
            for name, open_file in files:
                summary, form = RecordSummary(), ""
                try:
                    found = open_file()
                    for record in found.records:
                        summary.note(record)
                    form, notes = found.format.value, _notes(found)
                except DataFileError as error:
                    if len(files) == 1:
                        raise
                    notes = [str(error)]
                checked.append(CheckedFile(name=name, format=form, summary=summary, notes=notes))
        return checked

    def fill(self, store: str, upload: Upload) -> Imported:
        """Store the records of an upload, each once; of a file that cannot be read to its end, those before.

        Raises:
            ReadOnlyPageError: nothing may be changed.
            ValueError: there is no such store, or a record cannot be stored; the message says what is stored.
        """
        self.check_may_import()
        target = self._desk.memory(store).store
        filler = Filler(target)
        left: list[str] = []
        try:
            with devmem.acting_as("devmem web"), _opened(upload) as files:
                for _, open_file in files:
                    try:
                        found = open_file()
                        filler.fill(found.records, found.fields)
                        left += _notes(found)
                    except DataFileError as error:
                        if len(files) == 1:
                            raise
                        left.append(str(error))
        except (ValueError, DevmemError, OSError) as error:
            done = ", ".join(f"{count:,} {name}" for name, count in filler.counts.items() if count) or "nothing"
            raise ValueError(f"{error} (before it: {done}; what is stored is not stored twice)") from error
        target.save()
        self._drop(upload)
        return Imported(counts=filler.counts, notes=[*left, *filler.notes()], items=target.count())

    def _drop(self, upload: Upload) -> None:
        with self._lock:
            if self._upload != upload:
                return
            self._upload = None
        shutil.rmtree(upload.path.parent)

    def export(self, store: str, form: str) -> Iterator[str]:
        """Return the parts of an export of the items within reach; the store records it, as `devmem export` does.

        Raises:
            ReadOnlyPageError: it cannot be recorded.
            ValueError: there is no such store or format.
        """
        self._desk.check_writable()
        if form not in EXPORTS:
            raise ValueError(f"{form!r} is not {' or '.join(EXPORTS)}")
        memory = self._desk.memory(store)
        where = memory.guard.matching() if self._desk.user is not None else memory.guard.matching(user=ANY)
        if reason := record_export(memory.store, "", items=memory.store.count(where), where=where):
            _LOG.warning("%s", reason)
        return EXPORTS[form](snapshot_of(memory.store, every_item(memory.store, where)))


def _notes(found: DataFile) -> list[str]:
    """Return what is left out of a file that was read."""
    left = found.left_out
    return [*left.notes(), *map(str, left.unusable.first)]


@contextmanager
def _opened(upload: Upload) -> Iterator[list[tuple[str, Callable[[], DataFile]]]]:
    """Yield the data files of an upload, of an archive those in it, under their own names, each with what opens it.

    Raises:
        ValueError: a file cannot be read; the message names it, and the line.
    """

    def named(path: Path | str) -> str:
        return str(path).replace(str(upload.path), upload.name, 1)

    with tempfile.TemporaryDirectory(prefix="devmem-") as scratch:
        try:
            yield [
                (named(name), partial(open_data, path, name=named(name)))
                for path, name in data_files(upload.path, Path(scratch))
            ]
        except DataFileError as error:
            raise ValueError(named(str(error))) from error
