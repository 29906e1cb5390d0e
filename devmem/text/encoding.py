"""Decoding of text files whose encoding is known, or detected."""

from __future__ import annotations

import codecs
import re
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""UTF-32 before UTF-16, whose mark it begins with."""
_LOOKED_AT: Final = 256 * 1024
"""Number of bytes from which an unknown encoding is detected."""
_CONTROLS: Final = re.compile("[\x00-\x08\x0e-\x1a]")


class UnreadableError(ValueError):
    """Bytes that hold no text that can be read; the message says why, without a subject."""


def decode_text(data: bytes, encoding: str | None) -> str:
    """Return the text, every line end a line feed; the encoding is detected when it is None.

    Raises:
        UnreadableError: the bytes are not of that encoding, or not a text at all.
    """
    text = _decode_as(data, encoding) if encoding else _detect(data)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode_as(data: bytes, encoding: str) -> str:
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise UnreadableError(f"is not {encoding}: {error}") from error


def _detect(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decode_as(data, encoding)
    if b"\x00" in data[:8192]:
        return _decode_wide(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _guess(data)


def _decode_wide(data: bytes) -> str:
    """Decode UTF-16 that has no mark: mostly ASCII, it has zeros in every other byte."""
    head = data[:8192]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[first::2].count(0), head[1 - first :: 2].count(0)
        if len(data) % 2 == 0 and zeros > len(head) // 4 and not others:
            text = _decode_as(data, encoding)
            if not _CONTROLS.search(text):
                return text
    raise UnreadableError("holds zero bytes, so it is no text")


def _guess(data: bytes) -> str:
    # Imported here: most files are UTF-8 and need no guessing.
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_LOOKED_AT]).best()
    for encoding in dict.fromkeys([best.encoding] if best else []):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            break
    # GBK's pairs of high bytes are many in Chinese and rare in Western text, whose every byte is a character.
    high = sum(byte >= 0x80 for byte in data[:_LOOKED_AT])
    if 2 * high > len(data[:_LOOKED_AT]):
        try:
            return data.decode("gb18030")
        except UnicodeDecodeError:
            return _decode_latin(data)
    return _decode_latin(data)


def _decode_latin(data: bytes) -> str:
    text = data.decode("cp1252", errors="replace")
    if _CONTROLS.search(text):
        raise UnreadableError("holds control characters, so it is no text")
    return text
