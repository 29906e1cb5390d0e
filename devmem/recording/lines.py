"""Lines of a journal: a CRC-32 as eight hexadecimal digits, a space, JSON, a line feed."""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic_core import from_json, to_json

Record = Sequence[Any]
"""A record in its JSON form."""
_LOG: Final = logging.getLogger(__name__)
_HEAD: Final = 9
"""Length of the checksum and the space behind it."""
_CHUNK: Final = 1 << 18
"""Bytes that are read at once."""
_SHARE: Final = 8
"""Records that are read before other threads get the interpreter, for which they would wait a whole time slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that follow one another in a journal."""

    records: Sequence[Record]
    end: int
    """Position behind the last of them, in bytes."""


def encode_line(record: Record) -> bytes:
    """Return a record as a line.

    Raises:
        TypeError: a value has no JSON form.
        ValueError: a value cannot be written.
    """
    try:
        body = to_json(record)
    except ValueError:
        # Lone surrogates, which JSON can escape and UTF-8 cannot hold.
        body = json.dumps(record, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode_line(line: bytes) -> Record | None:
    """Return the record of a line without its line feed; None when the line is damaged."""
    try:
        body = line[_HEAD:]
        if int(line[: _HEAD - 1], 16) != zlib.crc32(body):
            return None
        try:
            record = from_json(body)
        except ValueError:
            record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, list) else None


def read_batch(file: BinaryIO | FileIO, path: Path, start: int, end: int, limit: int) -> Batch:
    """Read records of a journal, at most `limit`, between two positions in bytes.

    A damaged line is left out and logged; a last line that was not finished is passed over, since it was never
    acknowledged to anybody.
    """
    records: list[Record] = []
    file.seek(start)
    data, at = b"", start
    while len(records) < limit and at < end:
        line, feed, rest = data.partition(b"\n")
        if not feed:
            more = file.read(min(_CHUNK, end - at - len(data)))
            if not more:
                return Batch(records=records, end=end)
            data += more
            continue
        data = rest
        at += len(line) + 1
        if (record := decode_line(line)) is None:
            _LOG.error("%s: the line that ends at byte %d is damaged and was left out", path, at)
            continue
        records.append(record)
        if len(records) % _SHARE == 0:
            time.sleep(0)
    return Batch(records=records, end=at)
