"""Files of models: located on this machine, mapped into memory, told apart and compared by their digests."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from devmem.errors import ModelDamagedError

_SAMPLE: Final = 1 << 16
"""Number of bytes read from the start, middle and end of a file to tell models apart."""


def package_folder(package: str) -> Path | None:
    """Return the folder of an installed package; None where it is not installed."""
    # The package is located, not imported: only its folder is needed.
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def mapped(path: Path) -> memoryview:
    """Map a file into memory."""
    with path.open("rb") as file:
        # An empty file cannot be mapped; its digest tells that it is not the official one.
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b"")


def check_digest(path: Path, content: bytes | memoryview, official: str, *, advice: str) -> None:
    """Compare the SHA-256 of what was read from `path` with the official one.

    Raises:
        ModelDamagedError: they differ; the message ends with `advice`.
    """
    found = hashlib.sha256(content).hexdigest()
    if found != official:
        raise ModelDamagedError(
            f"{path}: its content is not the official one: SHA-256 is {found}, should be {official}. {advice}"
        )


def sampled(path: Path) -> Iterator[bytes]:
    """Return a file's size and samples of its content: their digest tells the files of two models apart."""
    size = path.stat().st_size
    yield size.to_bytes(8, "little")
    with path.open("rb") as file:
        for start in (0, size // 2, max(0, size - _SAMPLE)):
            file.seek(start)
            yield file.read(_SAMPLE)
