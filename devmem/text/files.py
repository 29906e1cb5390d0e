"""Atomic replacement of files: a reader, or a restart after a crash, finds the old content or the new one, whole."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
import threading
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from devmem.errors import UnreadableError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

OWNER_ONLY: Final = 0o600
"""Mode of new files: a memory holds what people said."""
_CREATING: Final = threading.Lock()
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of the errors of a system that has no room for a file."""
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part$")


def replace_file(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write the parts to a new file beside `path` and rename it to `path`, durably.

    A new file can be read by its owner only; one that is replaced keeps its mode. A symbolic link is followed. A device
    or a pipe, such as `/dev/stdout`, is not replaced: the parts are written into it.

    Raises:
        OSError: the file cannot be written. `path` is unchanged then, as it is when making a part raises.
    """
    if _is_stream(path):
        with path.open("wb") as stream:
            stream.writelines(parts)
        return
    path = Path(os.path.realpath(path))
    unfinished, file = create_beside(path)
    try:
        with file:
            _copy_mode(path, file)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # An open file cannot be renamed there; elsewhere the lock holds until it has its name.
            unfinished.replace(path)
    except BaseException as error:
        # BaseException: also an interrupt leaves no partial file behind.
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in DISK_FULL and error.filename is None:
            error.filename = str(path)  # The system does not name the file of a write.
        raise
    sync_folder(path.parent)


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with the home folder for a leading `~`; a single `~name` without such a user is the name of a file.

    Raises:
        FileNotFoundError: the home folder is unknown, so that the path would be one in the current folder.
    """
    found = os.path.expanduser(path)  # noqa: PTH111 - `Path.expanduser` raises for the name of a file, too
    first, *others = Path(found).parts or ("",)
    if found.startswith("~") and (others or first == "~"):
        raise FileNotFoundError(errno.ENOENT, f"the home folder {first} is unknown", os.fspath(path))
    return Path(found)


def finished_name(name: str) -> str:
    """Return the name of the file that is replaced, where `name` is that of its partial file; others unchanged."""
    return _UNFINISHED.sub("", name)


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


class WorkMarker:
    """An empty file beside another one, which shows for as long as this process lives that it is at work on that."""

    def __init__(self, path: Path) -> None:
        """Create it beside `path`.

        Raises:
            OSError: it cannot be created.
        """
        self._path, self._file = create_beside(Path(os.path.realpath(path)))
        self.name: Final = self._path.suffixes[-2].removeprefix(".")
        """32 hexadecimal digits by which `is_at_work` finds it."""

    def remove(self) -> None:
        """Remove the file; nothing happens where it is removed already."""
        if sys.platform == "win32":
            self._file.close()  # An open file cannot be removed there; elsewhere the lock holds until it is gone.
        self._path.unlink(missing_ok=True)
        self._file.close()


def is_at_work(path: Path, name: str) -> bool:
    """Whether a living process has a marker of a name beside `path`; what a dead one left is removed."""
    path = Path(os.path.realpath(path))
    marker = path.with_name(f"{path.name}.{name}.part")
    return not _remove_unused(marker) and marker.exists()


def create_private(path: str, flags: int) -> int:
    """Open a file that, if it is new, only its owner can read: the `opener` of the built-in `open`."""
    return os.open(path, flags, OWNER_ONLY)


def create_empty(path: Path) -> None:
    """Create an empty file that only its owner can read; an existing one is left alone.

    SQLite gives the files beside a database the mode of the database.

    Raises:
        OSError: the file cannot be created.
    """
    # Closing a file releases every lock that the process has on it: no one may open it in between.
    with _CREATING:
        try:
            os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
        except FileExistsError:
            return


def lock_file(file: BinaryIO | FileIO) -> bool:
    """Lock a file until it is closed; return whether no one else has it locked."""
    try:
        if sys.platform == "win32":
            file.seek(1 << 62)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def create_beside(path: Path) -> tuple[Path, BinaryIO]:
    """Create a new file with a unique name, locked so that `remove_leftovers` knows that it is in use."""
    while True:
        unfinished = path.with_name(f"{path.name}.{uuid4().hex}.part")
        file = open(unfinished, "xb", opener=create_private)  # noqa: SIM115 - the caller closes it
        # Windows removes no file that is open; elsewhere another process may have taken it for a leftover before it was
        # locked.
        if sys.platform == "win32" or (lock_file(file) and os.fstat(file.fileno()).st_nlink):
            return unfinished, file
        file.close()


def _remove_unused(unfinished: Path) -> bool:
    """Remove a partial file unless it is being written; report whether it was removed."""
    try:
        if sys.platform == "win32":
            unfinished.unlink()
        else:
            with unfinished.open("rb") as file:
                if not lock_file(file):
                    return False  # still being written
                unfinished.unlink()
    except FileNotFoundError:
        return False  # renamed meanwhile
    except PermissionError:
        if sys.platform == "win32":
            return False  # still being written
        raise
    return True


def _is_stream(path: Path) -> bool:
    """Whether a path is that of a device, a pipe or a socket."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # missing, or a path that cannot be: creating the file says so
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _copy_mode(path: Path, file: BinaryIO) -> None:
    if sys.platform != "win32" and path.exists():
        os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))


def sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power loss; Windows neither needs nor allows it."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""UTF-32 before UTF-16, whose mark it begins with."""
_WIDE_MARKS: Final = tuple(mark for mark, encoding in _MARKS if encoding != "utf-8-sig")
_PLAUSIBLE: Final = tuple(
    "cp1252 cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 cp1257 iso8859_2 koi8_r cp866 cp850 mac_roman tis_620 "
    "gb18030 big5 cp932 euc_jp cp949".split()
)
"""Encodings that files of people are in; a short text fits others as well, of mainframes for instance."""
_LOOKED_AT: Final = 256 * 1024
"""Number of bytes from which an unknown encoding is detected."""
_HEAD: Final = 8192
"""Number of bytes of which none is zero in a text, unless its characters have two bytes."""
_JAPANESE: Final = (b"\x1b$B", b"\x1b$@")
"""Escape sequences that begin Japanese in ISO-2022-JP, whose bytes are all ASCII."""
_MOSTLY: Final = 10
"""Least number of characters beyond ASCII for each damaged byte in a text that is taken for damaged UTF-8."""
_CONTROLS: Final = re.compile("[\x00-\x08\x0e-\x1a]")


def decode_text(data: bytes, encoding: str | None) -> str:
    """Return the text, every line end a line feed; the encoding is detected when it is None.

    Bytes that a guessed encoding has no characters for become U+FFFD.

    Raises:
        UnreadableError: the bytes are not of the encoding that is given or marked, or not a text at all.
    """
    if encoding:
        text = _decode_as(data, encoding)
    elif data.startswith(_WIDE_MARKS):
        text = _decode_as(data, detect_encoding(data))
    else:
        text = data.decode(detect_encoding(data), errors="replace")
        if _CONTROLS.search(text) and not _is(data, "utf-8"):
            raise UnreadableError("holds control characters, so it is not text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def detect_encoding(data: bytes) -> str:
    """Return the encoding of a text: what its mark says, UTF-8, or else a guess.

    Raises:
        UnreadableError: the bytes are not text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    if b"\x00" in data[:_HEAD]:
        return _wide(data)
    if seems_utf8(data[:_HEAD]) and _is(data, "utf-8"):
        return "utf-8"
    return _guess(data)


def describe_guess(data: bytes) -> str:
    """Return what a person should know of a text whose encoding `decode_text` guesses; empty where it does not.

    Raises:
        UnreadableError: the bytes are not text.
    """
    if data.startswith(_WIDE_MARKS) or (seems_utf8(data[:_HEAD]) and _is(data, "utf-8")):
        return ""
    encoding, text = detect_encoding(data), decode_text(data, None)
    said = f"is not UTF-8 and was read as {encoding}, a guess"
    if encoding in ("utf-8", "utf-8-sig"):
        said = "is damaged UTF-8"
    if not (lost := text.count("\ufffd")):
        return said
    line = text.count("\n", 0, text.index("\ufffd")) + 1
    return f"{said}; {lost:,} of its characters could not be read and became U+FFFD, first on line {line:,}"


def seems_utf8(head: bytes) -> bool:
    """Whether the beginning of a file, if it is valid UTF-8, is that and no other encoding that looks like ASCII."""
    return b"\x00" not in head and not any(escape in head for escape in _JAPANESE)


def _decode_as(data: bytes, encoding: str) -> str:
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise UnreadableError(f"is not {encoding}: {error}") from error


def _is(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _wide(data: bytes) -> str:
    """Return which UTF-16 a text without a mark is: mostly ASCII, it has zeros in every other byte."""
    head = data[:_HEAD]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[first::2].count(0), head[1 - first :: 2].count(0)
        is_wide = len(data) % 2 == 0 and zeros > len(head) // 4 and not others
        if is_wide and _is(data, encoding) and not _CONTROLS.search(data.decode(encoding)):
            return encoding
    raise UnreadableError("holds zero bytes, so it is not text")


def _guess(data: bytes) -> str:
    if any(escape in data for escape in _JAPANESE) and _is(data, "iso2022_jp"):
        return "iso2022_jp"
    if _is_mostly_utf8(data):
        return "utf-8"
    # Imported here: most files are UTF-8 and need no guessing.
    from charset_normalizer import from_bytes

    head = data[:_LOOKED_AT]
    found = from_bytes(head, cp_isolation=[*_PLAUSIBLE])
    best = found.best()
    # Most bytes of Chinese and Russian are high, and few of Western text.
    usual = ("gb18030", "cp1251") if 2 * sum(byte >= 0x80 for byte in head) > len(head) else ("cp1252",)
    if best is None:
        return usual[0] if _is(data, usual[0]) else "cp1252"
    alike = [match for match in found if (match.chaos, match.coherence) == (best.chaos, best.coherence)]
    known = {encoding for match in alike for encoding in match.could_be_from_charset}
    return next((one for one in (*usual, best.encoding) if one in known and _is(data, one)), "cp1252")


def _is_mostly_utf8(data: bytes) -> bool:
    """Whether UTF-8 was damaged or cut: another encoding has hardly ever as many valid sequences of it."""
    text = data.decode("utf-8", errors="replace")
    damaged = text.count("\ufffd")
    return sum(not char.isascii() for char in text) >= (_MOSTLY + 1) * damaged
