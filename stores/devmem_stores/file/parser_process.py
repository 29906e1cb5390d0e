"""The process that parses files: it answers one request after another until its input ends.

A file may crash a parser, take all memory, or keep it busy for hours. Here it does so to a process that its owner
(`devmem_stores.file.parser`) can end. A request is a line of JSON and the file's bytes; an answer is a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from devmem.errors import MissingExtraError
from devmem.text import UnreadableError
from devmem_stores.file.chunks import Chunk, Chunking, Limits, chunks_of
from devmem_stores.file.formats import encoding_guess, read_sections


def serve() -> None:
    """Answer the requests on standard input until it ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # A parser that prints must not print into an answer.
    os.dup2(2, 1)
    _send(answers, {"ready": True})
    used = _used_memory()
    while line := requests.readline():
        request = json.loads(line)
        _send(answers, _answer(request, Limits(**request["limits"]), requests.read(request["size"]), used))


def _send(answers: Any, answer: dict[str, Any]) -> None:  # noqa: ANN401 - a binary stream
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _answer(request: dict[str, Any], limits: Limits, data: bytes, used: int | None) -> dict[str, Any]:
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
        return {"problem": limits.too_much_memory(), "exhausted": True}
    except Exception as error:  # noqa: BLE001 - parsers of other projects raise anything for a damaged file
        return {"problem": f"cannot be parsed: {type(error).__name__}: {error}"}


def _within(chunks: Iterable[Chunk], limits: Limits, size: int) -> Iterator[Chunk]:
    """Return the chunks; a file with more, or with more text, than the limits allow is refused."""
    characters = 0
    for count, chunk in enumerate(chunks, start=1):
        characters += len(chunk.summary)
        if count > limits.max_chunks:
            raise UnreadableError(limits.too_many_chunks())
        if characters > limits.characters(size):
            raise UnreadableError(limits.too_much_text(size))
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
