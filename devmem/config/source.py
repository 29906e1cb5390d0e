"""A workflow file's bytes to text, refusing whatever cannot be one."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final

from devmem.config.rules import Rule
from devmem.errors import ConfigError, Finding

MAX_BYTES: Final = 1024 * 1024
"""Largest workflow file, in bytes (or characters, when text is given)."""

# What YAML calls printable; the parser would refuse the rest too, but without saying where.
_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(path: Path, origin: str) -> str:
    """Read a workflow file; UTF-8, or UTF-16 with a byte order mark.

    Raises:
        ConfigError: the file cannot be read, is too large, or is not text.
    """
    try:
        data = read_up_to(path, MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(origin, f"the file cannot be read: {error.strerror}") from error
    if data is None:
        raise _refusal(origin, _why_no_file(path))
    if len(data) > MAX_BYTES:
        raise _refusal(origin, _too_large("bytes"))
    return _decoded(data, origin)


def read_up_to(path: Path, count: int) -> bytes | None:
    """Return a file's first `count` bytes; None when there is no such file, or when it is a folder, pipe or device."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(count)


def checked_text(text: str, origin: str) -> str:
    """Return the text without its byte order mark, or refuse it.

    Raises:
        ConfigError: it is too long or holds control characters.
    """
    if len(text) > MAX_BYTES:
        raise _refusal(origin, _too_large("characters"))
    text = text.removeprefix("\ufeff")
    found = _UNPRINTABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise _refusal(origin, f"the character U+{ord(found.group()):04X} may not stand in a workflow file", line)
    return text


def _decoded(data: bytes, origin: str) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte {error.start} (0x{data[error.start]:02x}) is not {encoding.removesuffix('-sig').upper()}"
        message = f"{what}; save the file as UTF-8"
    raise _refusal(origin, message, line)


def _why_no_file(path: Path) -> str:
    if path.is_dir():
        return "this is a folder, not a workflow file"
    return "this is not a regular file" if path.exists() else "there is no such file"


def _too_large(unit: str) -> str:
    return f"the workflow is larger than {MAX_BYTES:,} {unit}"


def _refusal(origin: str, message: str, line: int | None = None) -> ConfigError:
    return ConfigError([Finding(message=message, rule=Rule.INVALID_FILE, file=origin, line=line)])
