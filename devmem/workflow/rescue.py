"""Writes that stores could not take: they wait in the session's state, and are tried again before the next write."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter

from devmem.encryption.keys import StoreKey, key_of, protect
from devmem.errors import OutboxError
from devmem.model.results import MemoryWritePayload, WriteOutcome, WriteStatus
from devmem.storage.pending import STATE_FILE, WRITE, Delivery, DeliveryPolicy, Entry, Outbox, deliver

_LOG: Final = logging.getLogger(__name__)
_PATIENCE: Final = 60.0
"""Seconds to wait for another thread or process that is writing what is unsaved."""
_POLICY: Final = DeliveryPolicy(refusals=(ValueError, TypeError, LookupError))
"""The refusals are what a store raises that cannot work with a payload; that it cannot work at all is another error."""
TEMPORARY: Final = "devmem-unsaved-*.db"
"""Files, in the machine's folder for temporary files, of writes for which there was no other place."""

Write = Callable[[MemoryWritePayload], WriteOutcome]


@cache
def _adapter() -> TypeAdapter[MemoryWritePayload]:
    return TypeAdapter(MemoryWritePayload)


def dump_write(payload: MemoryWritePayload) -> str:
    """Return the payload as one line of ASCII JSON: `{"payload": {...}}`; what JSON does not know becomes text."""
    raw = _adapter().dump_python(payload, mode="json", fallback=str, warnings=False)
    return json.dumps({"payload": raw})


def load_write(raw: object) -> MemoryWritePayload:
    """Return the payload of the value of `payload`; raises `pydantic.ValidationError` when it is none."""
    return _adapter().validate_python(raw)


def read_write(line: str) -> MemoryWritePayload:
    """Return the payload of a line that `dump_write` made; raises `ValueError` for anything else."""
    raw = json.loads(line)
    if not isinstance(raw, dict) or "payload" not in raw:
        raise ValueError("it is not an unsaved write")
    return load_write(raw["payload"])


class UnsavedWrites:
    """Payloads that stores could not take, in order for each store; safe to use from several threads."""

    def __init__(self, folder: Path | None = None, keys: Mapping[str, StoreKey] | None = None) -> None:
        """Name the folder in whose state the payloads wait; None keeps them in this process until `close`.

        `keys` are those of the stores that are encrypted, by name: what they could not take is encrypted too.
        """
        self._folder, self._keys = folder, dict(keys or {})
        self._outboxes: dict[str, Outbox[MemoryWritePayload]] = {}
        self._lock = threading.Lock()

    def write(self, store: str, payload: MemoryWritePayload, write: Write) -> WriteOutcome:
        """Write what is unsaved, oldest first, then the payload; what fails is kept, in order.

        What the store refuses for what it is holds back nothing, and is tried again with every write.

        Raises:
            Exception: what `write` raised for this payload, or for an earlier one that holds it back.
        """
        if not self._held(store):
            try:
                return write(payload)
            except BaseException:
                self._keep(store, payload)
                raise
        key = self._keep(store, payload)
        delivery = _deliver(self._outbox(store), write)
        if key in delivery.results:
            return delivery.results[key]
        error = delivery.refused.get(key) or delivery.stopped_by
        if error is not None:
            raise error
        return WriteOutcome(status=WriteStatus.STORED, reason="another thread wrote it")

    def flush(self, store: str, write: Write) -> Exception | None:
        """Try once more to write what a store could not take; return what still prevents it."""
        if not self._held(store):
            return None
        delivery = _deliver(self._outbox(store), write)
        return delivery.stopped_by or next(iter(delivery.refused.values()), None)

    def held(self, stores: Sequence[str]) -> int:
        """Return the number of payloads that wait for some stores."""
        return sum(map(self._held, stores))

    def close(self, stores: Sequence[str]) -> list[Path]:
        """Release the files, and return those in which payloads wait for some stores.

        What had no file gets one in the machine's folder for temporary files; where that cannot be written either, the
        payloads are logged.
        """
        files: dict[Path, None] = {}
        for store in stores:
            if not (count := self._held(store)):
                continue
            outbox = self._outbox(store)
            file = outbox.file or self._export(store, [entry.value for entry in outbox.entries(refused=True)])
            if file is not None:
                files[file] = None
                way = "the next write to the store tries them again" if outbox.file else "`devmem import` reads it"
                _LOG.error("%d write(s) to memory store %r wait in %s; %s.", count, store, file, way)
        with self._lock:
            for outbox in self._outboxes.values():
                outbox.close()
            self._outboxes.clear()
        return list(files)

    def _outbox(self, store: str) -> Outbox[MemoryWritePayload]:
        with self._lock:
            if store not in self._outboxes:
                file = None if self._folder is None else self._folder / STATE_FILE
                self._outboxes[store] = self._open(store, file)
            return self._outboxes[store]

    def _open(self, store: str, file: Path | None) -> Outbox[MemoryWritePayload]:
        if file is not None and (key := self._keys.get(store)) is not None and key_of(file) is None:
            protect(file, key)
        return Outbox(file, dump=dump_write, load=read_write, kind=WRITE, place=store)

    def _held(self, store: str) -> int:
        """Return the number of payloads that wait for a store; where its file cannot be read, of those in memory."""
        try:
            return self._outbox(store).held()
        except OutboxError as error:
            return self._in_memory(store, error).held()

    def _in_memory(self, store: str, error: OutboxError) -> Outbox[MemoryWritePayload]:
        """Keep the payloads of a store in this process from now on, as its file cannot be used."""
        _LOG.warning("Writes to memory store %r that failed are kept in this process alone: %s", store, error)
        with self._lock:
            self._outboxes[store] = self._open(store, None)
            return self._outboxes[store]

    def _keep(self, store: str, payload: MemoryWritePayload) -> str:
        key = uuid4().hex
        try:
            self._outbox(store).put({key: payload})
        except OutboxError as error:
            self._in_memory(store, error).put({key: payload})
        return key

    def _export(self, store: str, payloads: Sequence[MemoryWritePayload]) -> Path | None:
        file = Path(tempfile.gettempdir()) / TEMPORARY.replace("*", uuid4().hex)
        outbox = self._open(store, file)
        try:
            outbox.put({uuid4().hex: payload for payload in payloads})
        except OutboxError as error:
            _LOG.warning("Unsaved writes cannot be put into %s: %s", file, error)
            # A log is plain.
            lines = "".join(f"\n{dump_write(payload)}" for payload in payloads)
            shown = lines if store not in self._keys else " The store is encrypted, so they are not logged."
            _LOG.critical("These writes to memory store %r could not be saved anywhere:%s", store, shown)
            return None
        finally:
            outbox.close()
        return file


def _deliver(outbox: Outbox[MemoryWritePayload], write: Write) -> Delivery[WriteOutcome]:
    def send(entries: Sequence[Entry[MemoryWritePayload]]) -> list[WriteOutcome]:
        return [write(entry.value) for entry in entries]

    outbox.readmit()
    return deliver(outbox, send, _POLICY, patience=_PATIENCE)
