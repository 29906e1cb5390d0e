"""Files of models: located on this machine, mapped into memory, told apart and compared by their digests."""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from devmem.config.store import EmbeddingParams
from devmem.errors import EmbeddingError, ModelDamagedError
from devmem.model.items import Vector
from devmem.text.files import replace_file

_LOG: Final = logging.getLogger(__name__)
_DIGESTS: Final = "digests.json"
_REMEMBERED_FOR: Final = 7 * 86_400.0
"""Seconds for which a digest is believed, so that a disk that loses bits is noticed."""
_SETTLED: Final = 2.0
"""Seconds after which a change of a file has another `ctime` on every file system."""
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


def official_content(path: Path, official: str, *, advice: str) -> memoryview:
    """Map a large file into memory whose SHA-256 is the official one.

    Hashing 91 MB takes longer than a search. The digest of a file is remembered in the user's cache folder for some
    days, and believed for the very same file: of this inode and size, unchanged since (`ctime`, which no program sets).

    Raises:
        ModelDamagedError: the digest is another one; the message ends with `advice`.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        # An empty file cannot be mapped; its digest tells that it is not the official one.
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if found.st_size else b"")
    now = time.time()
    mark = [official, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    known = _remembered()
    entry = known.get(str(path.absolute()))
    if isinstance(entry, list) and entry[:-1] == mark and 0 <= now - entry[-1] < _REMEMBERED_FOR:
        return content
    check_digest(path, content, official, advice=advice)
    # A file that was changed a moment ago may change again without another `ctime`.
    if now - found.st_ctime > _SETTLED:
        _remember({**known, str(path.absolute()): [*mark, now]})
    return content


def _remembered() -> dict[str, Any]:
    try:
        file = cache_folder() / _DIGESTS
        found: object = json.loads(file.read_bytes()) if _is_ours(file) else {}
    except (OSError, RuntimeError, ValueError) as error:
        _LOG.debug("no digests are remembered: %s", error)
        return {}
    return found if isinstance(found, dict) else {}


def _is_ours(file: Path) -> bool:
    """Whether nobody else can have written a file."""
    if not hasattr(os, "getuid"):
        return True  # the folder of a user's caches is that user's on Windows
    found = file.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def _remember(digests: Mapping[str, Any]) -> None:
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(folder / _DIGESTS, [json.dumps(digests).encode()])
    except (OSError, RuntimeError) as error:
        _LOG.debug("the digest of a model is not remembered: %s", error)


def cache_folder() -> Path:
    """Return the folder for what devmem can find out again: `devmem` in the user's folder of caches.

    Raises:
        RuntimeError: the user has no home.
    """
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named) / "devmem"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "devmem" / "Cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "devmem"


def sampled(path: Path) -> Iterator[bytes]:
    """Return a file's size and samples of its content: their digest tells the files of two models apart."""
    size = path.stat().st_size
    yield size.to_bytes(8, "little")
    with path.open("rb") as file:
        for start in (0, size // 2, max(0, size - _SAMPLE)):
            file.seek(start)
            yield file.read(_SAMPLE)


_LENGTH: Final = 8
"""Bytes at the start of the file that hold the length of its JSON header, little-endian."""
_TYPES: Final = {"F32": "<f4", "F16": "<f2"}


def read_tensors(content: memoryview) -> dict[str, Vector]:
    """Return the floating-point tensors by name, as float32; those stored as float32 are read-only views.

    Raises:
        ValueError: it is no such file.
    """
    start = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header: dict[str, Any] = json.loads(bytes(content[_LENGTH:start]))
    tensors: dict[str, Vector] = {}
    for name, entry in header.items():
        if entry.get("dtype") in _TYPES:
            low, high = entry["data_offsets"]
            flat = np.frombuffer(content[start + low : start + high], dtype=_TYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"]).astype(np.float32, copy=False)
    return tensors


_FILE: Final = "config_sentence_transformers.json"
_QUERY: Final = ("query",)
_PASSAGE: Final = ("passage", "document")
"""Names of prompts, as sentence-transformers has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Texts that are put before questions and before what is searched."""

    query: str = ""
    passage: str = ""

    @property
    def suffix(self) -> str:
        """Part of the model's identity: other prompts make other vectors."""
        return f":{self.query}|{self.passage}" if self.query or self.passage else ""


def read_prompts(folder: Path, params: EmbeddingParams) -> Prompts:
    """Return the prompts of a model: those of the parameters, else those of its folder.

    Raises:
        EmbeddingError: the folder's file cannot be read.
    """
    found = read_json(folder / _FILE)
    named = found.get("prompts") or {}
    # pylate's models have `query_prefix` and `document_prefix`.
    query = _first(named, _QUERY) or found.get("query_prefix") or ""
    passage = _first(named, _PASSAGE) or found.get("document_prefix") or ""
    return Prompts(
        query=query if params.query_prefix is None else params.query_prefix,
        passage=passage if params.passage_prefix is None else params.passage_prefix,
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read an object from a file of a model's folder; empty where there is no such file.

    Raises:
        EmbeddingError: the file is no JSON object.
    """
    if not path.is_file():
        return {}
    try:
        found: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EmbeddingError(f"{path}: cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise EmbeddingError(f"{path}: expected a JSON object, found a {type(found).__name__}")
    return found


def _first(prompts: Mapping[str, str], names: Sequence[str]) -> str:
    return next((prompts[name] for name in names if prompts.get(name)), "")
