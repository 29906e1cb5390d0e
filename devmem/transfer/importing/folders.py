"""The data files that a path names: a file, those of a folder or a pattern, and those of a zip archive."""

from __future__ import annotations

import glob
import logging
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from devmem.errors import DataFileError, DateOrderError
from devmem.transfer.importing.files import is_bomb
from devmem.transfer.importing.formats import DataFile, open_data

_LOG: Final = logging.getLogger(__name__)
_SUFFIXES: Final = frozenset(
    """.json .jsonl .ndjson .md .markdown .txt .csv .tsv .gz .html .htm .xhtml .mbox .mbx .eml .ics .ical
    .xml""".split()
)
"""Names of files that may hold data; of a folder others are left out, as pictures."""
_SLACK_LISTS: Final = frozenset(
    f"{name}.json" for name in "users channels groups dms mpims integration_logs canvases lists".split()
)
"""Files of Slack's export that name users and channels, beside the folders that have the messages."""
_LARGEST: Final = 4_000_000_000
"""Bytes that an archive may take when it is unpacked."""


def data_files(
    path: Path, scratch: Path, opening: Callable[[Path], DataFile] = open_data
) -> Iterator[tuple[Path, str]]:
    """Yield each data file that a path names, with the name that is shown for it.

    Files of a folder or an archive of an unrecognised format are left out, and named in the log.

    Args:
        path: a file, a folder, a zip file, or a pattern such as `chats/*.txt` where there is no file of that name.
        scratch: folder in which an archive is unpacked.
        opening: opens a file with the options that it will be read with.

    Raises:
        DateOrderError: the order of day and month in a file has to be named, which leaves no file out.
        DataFileError: no data is there, or the archive cannot be unpacked.
    """
    if path.is_dir():
        yield from _known(path, _inside(path), opening, shown=str(path))
    elif path.is_file() and zipfile.is_zipfile(path):
        folder = _unpacked(path, scratch)
        yield from _known(path, _inside(folder), opening, shown=str(path), base=folder)
    elif not path.exists() and glob.has_magic(str(path)):
        matching = sorted(Path(one) for one in glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute ones too
        if not matching:
            raise DataFileError(path, "no file matches this pattern")
        for one in matching:
            yield from data_files(one, scratch, opening)
    else:
        yield path, str(path)


def _inside(folder: Path) -> list[Path]:
    """Return the files of a folder, at any depth, that may hold data; hidden ones are left out."""
    found = (one for one in folder.rglob("*") if _may_hold_data(one.name) and one.is_file())
    shown = (one for one in found if not any(part.startswith(".") for part in one.relative_to(folder).parts))
    return sorted(one for one in shown if one.name not in _SLACK_LISTS or not (one.parent / "users.json").is_file())


def _may_hold_data(name: str) -> bool:
    # Apple Mail exports a folder `NAME.mbox` with a mailbox of this name in it.
    return PurePosixPath(name).suffix.lower() in _SUFFIXES or name == "mbox"


def _known(
    path: Path, files: list[Path], opening: Callable[[Path], DataFile], *, shown: str, base: Path | None = None
) -> Iterator[tuple[Path, str]]:
    usable = 0
    for file in files:
        name = str(Path(shown) / file.relative_to(base or path))
        try:
            next(opening(file).records, None)
        except DateOrderError as error:
            raise DateOrderError(name, error.message, line=error.line) from error
        except DataFileError as error:
            _LOG.warning("%s is left out: %s", name, error.message)
            continue
        usable += 1
        yield file, name
    if not usable:
        raise DataFileError(path, "no data file is in it")


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Yield the members that may hold data; raises `DataFileError` for one that only fills the disk."""
    for member in archive.infolist():
        name = PurePosixPath(member.filename)
        if member.is_dir() or not _may_hold_data(name.name) or name.is_absolute() or ".." in name.parts:
            continue
        if is_bomb(member.compress_size, member.file_size):
            raise DataFileError(
                path, f"{member.filename!r} in it unpacks to {member.file_size:,} bytes from {member.compress_size:,}"
            )
        yield member, name


def _unpacked(path: Path, scratch: Path) -> Path:
    """Unpack the files of an archive that may hold data; no name leads out of the folder."""
    folder = scratch / f"zip-{len(list(scratch.iterdir()))}"
    left = _LARGEST
    try:
        with zipfile.ZipFile(path) as archive:
            for member, name in _members(path, archive):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, target.open("wb") as file:
                    while part := packed.read(1 << 20):
                        left -= len(part)
                        if left < 0:
                            raise DataFileError(path, f"it holds more than {_LARGEST:,} bytes; unpack it first")
                        file.write(part)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise DataFileError(path, f"the archive cannot be unpacked: {error}") from error
    folder.mkdir(exist_ok=True)
    return folder
