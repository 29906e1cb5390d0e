"""The data files that a path names: a file, those of a folder or a pattern, and those of a zip archive."""

from __future__ import annotations

import glob
import logging
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from devmem.errors import DataFileError
from devmem.transfer.importing.files import is_bomb
from devmem.transfer.importing.formats import SUFFIXES

_LOG: Final = logging.getLogger(__name__)
_SUFFIXES: Final = frozenset({*SUFFIXES, *".json .jsonl .ndjson .gz .xml .zip".split()})
"""Names of files that may hold data; of a folder others are left out, as pictures. An archive within is refused."""
_BESIDE: Final = {
    "users.json": frozenset(
        f"{name}.json" for name in "users channels groups dms mpims integration_logs canvases lists".split()
    ),
    "conversations.json": frozenset(
        "chat.html user.json users.json message_feedback.json shared_conversations.json model_comparisons.json".split()
    ),
}
"""Files of exports that have no messages of their own, by the name of one beside them."""
_NAMED: Final = 5
_LARGEST: Final = 4_000_000_000
"""Bytes that an archive may take when it is unpacked."""


def data_files(path: Path, scratch: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file that a path names and that may hold data, with the name that is shown for it.

    Other files of a folder or an archive, such as pictures, are counted in the log.

    Args:
        path: a file, a folder, a zip file, or a pattern such as `chats/*.txt` where there is no file of that name.
        scratch: folder in which archives are unpacked.

    Raises:
        DataFileError: no such file is there, or the archive cannot be unpacked.
    """
    if not path.exists() and glob.has_magic(str(path)):
        matching = sorted(Path(one) for one in glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute ones too
        if not matching:
            raise DataFileError(path, "no file matches this pattern")
        for one in matching:
            yield from data_files(one, scratch)
    elif path.is_dir():
        yield from _inside(path, path, Counter())
    elif path.is_file() and zipfile.is_zipfile(path):
        yield from _inside(*_unpacked(path, scratch))
    else:
        yield path, str(path)


def _inside(folder: Path, shown: Path, left: Counter[str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder, at any depth; hidden ones are left out.

    Args:
        folder: where the files are.
        shown: name of the folder.
        left: numbers of files that were left out already, by suffix.
    """
    found = sorted(one for one in folder.rglob("*") if one.is_file())
    is_any = False
    for file in found:
        inside = file.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts):
            continue
        is_beside = any(file.name in names and (file.parent / sign).is_file() for sign, names in _BESIDE.items())
        if is_beside or (file.parent.name == "Keep" and file.suffix == ".html" and file.with_suffix(".json").is_file()):
            continue
        if not _may_hold_data(file.name):
            left[file.suffix.lower() or file.name] += 1
        else:
            is_any = True
            yield file, str(shown / inside)
    if left:
        named = ", ".join(f"{name} ({count:,})" for name, count in left.most_common(_NAMED))
        more = f" and {len(left) - _NAMED:,} more kinds" if len(left) > _NAMED else ""
        _LOG.warning("%s: files without records are left out: %s%s", shown, named, more)
    if not is_any:
        raise DataFileError(shown, "no data file is in it")


def _may_hold_data(name: str) -> bool:
    # Apple Mail exports a folder `NAME.mbox` with a mailbox of this name in it.
    return PurePosixPath(name).suffix.lower() in _SUFFIXES or name == "mbox"


def _unpacked(path: Path, scratch: Path) -> tuple[Path, Path, Counter[str]]:
    """Unpack the files of an archive that may hold data; no name leads out of the folder.

    Returns:
        The folder, the name of the archive, and the numbers of its other files by suffix.

    Raises:
        DataFileError: the archive is damaged, or only fills the disk.
    """
    folder = scratch / f"zip-{len(list(scratch.iterdir()))}"
    room, left = _LARGEST, Counter[str]()
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = PurePosixPath(member.filename)
                if member.is_dir():
                    continue
                if not _may_hold_data(name.name) or name.is_absolute() or ".." in name.parts:
                    left[name.suffix.lower() or name.name] += 1
                    continue
                if is_bomb(member.compress_size, member.file_size):
                    raise DataFileError(
                        path, f"{name} in it unpacks to {member.file_size:,} bytes from {member.compress_size:,}"
                    )
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, target.open("wb") as file:
                    while part := packed.read(1 << 20):
                        room -= len(part)
                        if room < 0:
                            raise DataFileError(path, f"it holds more than {_LARGEST:,} bytes; unpack it first")
                        file.write(part)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise DataFileError(path, f"the archive cannot be unpacked: {error}") from error
    folder.mkdir(exist_ok=True)
    return folder, path, left
