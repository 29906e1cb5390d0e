"""Parsing of files in its own process, which is ended when a file exceeds its limits.

A file may crash a parser, take all memory, or keep it busy for hours. A request to the process is a line of JSON and
the file's bytes; an answer is a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from devmem.errors import MissingExtraError, UnreadableError
from devmem_stores.file.chunks import FREE_CHARACTERS, Chunk, Chunking, ParseLimits, chunks_of
from devmem_stores.file.formats import encoding_guess, read_sections

_START: Final = """\
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from devmem_stores.file.parser import serve
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
    """Splits files into chunks. Its process starts with the first file and ends with the block. Not thread-safe."""

    def __init__(self, chunking: Chunking, limits: ParseLimits) -> None:
        """Prepare to parse files into such chunks within such limits; nothing is started yet."""
        self._chunking, self._limits = chunking, limits
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

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
            raise UnreadableError(f"takes longer to parse than limits.max_seconds = {self._limits.max_seconds:g}")
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


# The other side: what the process does.


def serve() -> None:
    """Answer the requests on standard input until it ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # A parser that prints must not print into an answer.
    os.dup2(2, 1)
    _send(answers, {"ready": True})
    used = _used_memory()
    while line := requests.readline():
        request = json.loads(line)
        _send(answers, _answer(request, ParseLimits(**request["limits"]), requests.read(request["size"]), used))


def _send(answers: Any, answer: dict[str, Any]) -> None:  # noqa: ANN401 - a binary stream
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _answer(request: dict[str, Any], limits: ParseLimits, data: bytes, used: int | None) -> dict[str, Any]:
    try:
        with _memory_limit(used, limits.max_memory):
            sections = read_sections(request["name"], data, request["encoding"])
            made = chunks_of(request["name"], sections, Chunking(**request["chunking"]))
            chunks = [asdict(chunk) for chunk in _within(made, limits, len(data))]
            return {"chunks": chunks, "guess": encoding_guess(request["name"], data, request["encoding"])}
    except MissingExtraError as error:
        return {"missing": {"feature": error.feature, "package": error.package, "extra": error.extra}}
    except UnreadableError as error:
        return {"problem": str(error)}
    except (MemoryError, SystemError):  # CPython raises the second where C code has no memory left
        return {
            "problem": f"takes more memory to parse than limits.max_memory = {limits.max_memory:,} bytes",
            "exhausted": True,
        }
    except Exception as error:  # noqa: BLE001 - parsers of other projects raise anything for a damaged file
        return {"problem": f"cannot be parsed: {type(error).__name__}: {error}"}


def _within(chunks: Iterable[Chunk], limits: ParseLimits, size: int) -> Iterator[Chunk]:
    """Return the chunks; a file with more, or with more text, than the limits allow is refused."""
    characters, most = 0, FREE_CHARACTERS + int(limits.max_expansion * size)
    for count, chunk in enumerate(chunks, start=1):
        characters += len(chunk.summary)
        if count > limits.max_chunks:
            raise UnreadableError(f"has more than limits.max_chunks = {limits.max_chunks:,} chunks")
        if characters > most:
            raise UnreadableError(
                f"expands from {size:,} bytes to more than {most:,} characters of text "
                f"(limits.max_expansion = {limits.max_expansion:g})"
            )
        yield chunk


def _used_memory() -> int | None:
    """Return the bytes of memory that the process has; None where the system does not tell."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return None
    import resource

    return int(status.read_text("ascii").split()[0]) * resource.getpagesize()


@contextmanager
def _memory_limit(used: int | None, most: int) -> Iterator[None]:
    """Let the process take `most` bytes of memory beyond `used` within the block; only Linux enforces it.

    Outside of the block there is no limit: what has run out of memory needs some to say so.
    """
    if used is None:
        yield
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + most
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
