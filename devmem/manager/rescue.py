"""Writes that failed: kept for another try, and put into a file that `devmem import` reads when the run ends first."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter

from devmem.model.results import MemoryWritePayload
from devmem.text.atomic_write import replace_file

_LOG: Final = logging.getLogger(__name__)


@cache
def _adapter() -> TypeAdapter[MemoryWritePayload]:
    return TypeAdapter(MemoryWritePayload)


def dump_payload(payload: MemoryWritePayload) -> str:
    """Give the payload as one line of ASCII JSON: `{"payload": {...}}`; what JSON does not know becomes text."""
    raw = _adapter().dump_python(payload, mode="json", fallback=str, warnings=False)
    return json.dumps({"payload": raw})


def load_payload(raw: object) -> MemoryWritePayload:
    """Make a payload from the value of `payload`; raises `pydantic.ValidationError` when it is none."""
    return _adapter().validate_python(raw)


class UnsavedWrites:
    """The payloads that stores could not take, in order; safe to use from several threads."""

    def __init__(self) -> None:
        self._by_store: dict[str, list[MemoryWritePayload]] = {}
        self._lock = threading.Lock()

    def put_back(self, store: str, payloads: Sequence[MemoryWritePayload]) -> None:
        """Remember what could still not be written, before whatever else failed since it was taken."""
        with self._lock:
            if payloads:
                self._by_store[store] = [*payloads, *self._by_store.get(store, [])]

    def take(self, store: str) -> list[MemoryWritePayload]:
        """Give and forget what a store could not take, oldest first."""
        with self._lock:
            return self._by_store.pop(store, [])

    def __len__(self) -> int:
        with self._lock:
            return sum(len(payloads) for payloads in self._by_store.values())

    def rescue(self, folder: Path | None) -> list[Path]:
        """Append everything to `unsaved-STORE-TIME.jsonl` files and forget it; gives the files.

        Where `folder` cannot be written, the machine's folder for temporary files is tried; what cannot be written
        anywhere is logged whole.
        """
        files: list[Path] = []
        with self._lock:
            for store, payloads in self._by_store.items():
                lines = "".join(dump_payload(payload) + "\n" for payload in payloads)
                if (file := _write_somewhere(folder, store, lines)) is not None:
                    _LOG.error(
                        "%d write(s) to memory store %r are in %s; `devmem import` reads it.",
                        len(payloads),
                        store,
                        file,
                    )
                    files.append(file)
                else:
                    _LOG.critical("These writes to memory store %r could not be saved anywhere:\n%s", store, lines)
            self._by_store.clear()
        return files


def _candidates(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
    yield Path(tempfile.gettempdir())


def _write_somewhere(folder: Path | None, store: str, lines: str) -> Path | None:
    name = "".join(char if char.isalnum() or char in "-_" else "_" for char in store)
    for place in _candidates(folder):
        file = place / f"unsaved-{name}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}_{uuid4().hex[:8]}.jsonl"
        try:
            place.mkdir(parents=True, exist_ok=True)
            replace_file(file, [lines.encode("ascii")])
        except OSError as error:
            _LOG.warning("Unsaved writes cannot be put into %s: %s", place, error)
        else:
            return file
    return None
