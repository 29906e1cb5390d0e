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


class UnreadableError(ValueError):
    """Bytes that hold no text that can be read; the message says why, without a subject."""


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
            raise UnreadableError("holds control characters, so it is no text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def detect_encoding(data: bytes) -> str:
    """Return the encoding of a text: what its mark says, UTF-8, or else a guess.

    Raises:
        UnreadableError: the bytes are no text.
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
        UnreadableError: the bytes are no text.
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
    raise UnreadableError("holds zero bytes, so it is no text")


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
