"""Files of models: located on this machine, mapped into memory, and told apart by their digests."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from devmem.config.store import EmbeddingParams
from devmem.errors import EmbeddingError, ModelDamagedError
from devmem.model.items import Vector

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
        # An empty file cannot be mapped.
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b"")


def check_digest(path: Path, digest: str, official: str, *, advice: str) -> None:
    """Compare the SHA-256 of a model's file with that of the official one.

    Args:
        path: the file.
        digest: of its content, or of samples of it, in hexadecimal.
        official: the digest that it should have.
        advice: ends the message of the error.

    Raises:
        ModelDamagedError: they differ.
    """
    if digest != official:
        raise ModelDamagedError(
            f"{path}: its content is not the official one: SHA-256 is {digest}, should be {official}. {advice}"
        )


def sampled_digest(files: Iterable[Path], *details: bytes) -> str:
    """Return the SHA-256 of the sizes of files, of samples of their content, and of what else makes a model another.

    Hashing all of 91 MB takes a tenth of a second, as long as everything else that a search of a small store does.
    """
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            for start in (0, size // 2, max(0, size - _SAMPLE)):
                file.seek(start)
                digest.update(file.read(_SAMPLE))
    for one in details:
        digest.update(one)
    return digest.hexdigest()


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
