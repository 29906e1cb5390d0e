"""Parsing of files in its own process, which is ended when a file exceeds its limits."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Final, Self

from devmem import MissingExtraError
from devmem.text import UnreadableError
from devmem_stores.file.chunks import Chunk, Chunking, Limits

_START: Final = """\
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from devmem_stores.file.parser_process import serve
serve()
"""
"""Not `-m`: the process finds its modules where this one does."""
_START_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Result of parsing a file."""

    chunks: list[Chunk]
    guess: str
    """Note on its encoding where that was guessed; empty where it was not."""


class Parser:
    """Splits files into chunks. Its process starts with the first file and ends with `close`. Not thread-safe."""

    def __init__(self, chunking: Chunking, limits: Limits) -> None:
        """Prepare to parse files into such chunks within such limits; nothing is started yet."""
        self._chunking, self._limits = chunking, limits
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def parse(self, name: str, data: bytes, encoding: str | None) -> Parsed:
        """Split a file into chunks, by the format that its suffix names.

        Raises:
            UnreadableError: it is damaged, exceeds a limit, or crashed the process.
            MissingExtraError: the package that reads its format is not installed.
            OSError: the process cannot be started.
        """
        request = {
            "name": name,
            "size": len(data),
            "encoding": encoding,
            "chunking": asdict(self._chunking),
            "limits": asdict(self._limits),
        }
        answer = self._ask([json.dumps(request).encode() + b"\n", data])
        if "missing" in answer:
            raise MissingExtraError(**answer["missing"])
        if "exhausted" in answer:
            # What was freed may be in pieces too small for the next file.
            self._end()
        if "problem" in answer:
            raise UnreadableError(answer["problem"])
        chunks = [Chunk(**{**fields, "heading": tuple(fields["heading"])}) for fields in answer["chunks"]]
        return Parsed(chunks=chunks, guess=answer["guess"])

    def close(self) -> None:
        """End the process."""
        self._end()

    def _ask(self, request: list[bytes]) -> dict[str, Any]:
        try:
            process = self._process or self._start()
            started = time.monotonic()
            line = _exchange(process, request, self._limits.max_seconds)
        except BaseException:
            # Its next answer would be to this request.
            self._end()
            raise
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = self._end()
        if time.monotonic() - started >= self._limits.max_seconds:
            raise UnreadableError(self._limits.too_slow())
        raise UnreadableError(f"ended the process that parsed it, with status {status}")

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter with the code above
            [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        path = json.dumps([str(folder) for folder in sys.path])
        if not _exchange(self._process, [path.encode() + b"\n"], _START_SECONDS):
            raise OSError("the process that parses files did not start")
        return self._process

    def _end(self) -> int | None:
        """End the process; return its exit status, None when there is none."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        # Closes the pipes too.
        process.communicate()
        return process.returncode


def _exchange(process: subprocess.Popen[bytes], parts: list[bytes], seconds: float) -> bytes:
    """Send the parts and return the line that answers them; empty when the process ended, also after `seconds`."""
    assert process.stdin is not None  # noqa: S101 - for the type checker
    assert process.stdout is not None  # noqa: S101
    deadline = threading.Timer(seconds, process.kill)
    deadline.daemon = True
    deadline.start()
    try:
        for part in parts:
            process.stdin.write(part)
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        return b""
    finally:
        deadline.cancel()
    return line if line.endswith(b"\n") else b""
