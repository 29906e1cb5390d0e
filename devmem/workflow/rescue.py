"""Writes that stores could not take: kept for another attempt, and exported for `devmem import` when the run ends."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter

from devmem.encryption import StoreKey, protect, read_file, sealed_for
from devmem.errors import EncryptionError, OutboxError
from devmem.model.results import FileReport, MemoryWritePayload, WriteOutcome, WriteStatus, damage, unfinished
from devmem.storage.outbox import Delivery, DeliveryPolicy, Entry, Outbox, deliver, examine_outbox
from devmem.text.files import replace_file

_LOG: Final = logging.getLogger(__name__)
_PATIENCE: Final = 60.0
"""Seconds to wait for another thread or process that is writing what is unsaved."""
_POLICY: Final = DeliveryPolicy(refusals=(ValueError, TypeError, LookupError))
"""The refusals are what a store raises that cannot work with a payload; that it cannot work at all is another error."""

Write = Callable[[MemoryWritePayload], WriteOutcome]


@cache
def _adapter() -> TypeAdapter[MemoryWritePayload]:
    return TypeAdapter(MemoryWritePayload)


def dump_payload(payload: MemoryWritePayload) -> str:
    """Return the payload as one line of ASCII JSON: `{"payload": {...}}`; what JSON does not know becomes text."""
    raw = _adapter().dump_python(payload, mode="json", fallback=str, warnings=False)
    return json.dumps({"payload": raw})


def load_payload(raw: object) -> MemoryWritePayload:
    """Return the payload of the value of `payload`; raises `pydantic.ValidationError` when it is none."""
    return _adapter().validate_python(raw)


class UnsavedWrites:
    """Payloads that stores could not take, in order, an outbox for each store; safe to use from several threads."""

    def __init__(self, folder: Path | None = None, keys: Mapping[str, StoreKey] | None = None) -> None:
        """Name the folder of the outboxes, whose files `devmem import` reads after a crash; None keeps them here.

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
        outbox = self._outboxes.get(store)
        if outbox is None or not _held(outbox):
            try:
                return write(payload)
            except BaseException:
                self._keep(store, payload)
                raise
        key = self._keep(store, payload)
        delivery = _deliver(outbox, write)
        if key in delivery.results:
            return delivery.results[key]
        error = delivery.refused.get(key) or delivery.stopped_by
        if error is not None:
            raise error
        return WriteOutcome(status=WriteStatus.STORED, reason="another thread wrote it")

    def flush(self, store: str, write: Write) -> Exception | None:
        """Try once more to write what a store could not take; return what still prevents it."""
        outbox = self._outboxes.get(store)
        if outbox is None or not _held(outbox):
            return None
        delivery = _deliver(outbox, write)
        return delivery.stopped_by or next(iter(delivery.refused.values()), None)

    def __len__(self) -> int:
        with self._lock:
            return sum(map(_held, self._outboxes.values()))

    def _keep(self, store: str, payload: MemoryWritePayload) -> str:
        key = uuid4().hex
        try:
            self._outbox(store).put({key: payload})
        except OutboxError:
            _log_lost(store, dump_payload(payload), self._keys.get(store))
            raise
        return key

    def _outbox(self, store: str) -> Outbox[MemoryWritePayload]:
        with self._lock:
            if store not in self._outboxes:
                self._outboxes[store] = _open_outbox(self._folder, store, self._keys.get(store))
            return self._outboxes[store]

    def rescue(self, folder: Path | None) -> list[Path]:
        """Export everything to `unsaved-STORE-TIME.jsonl` files and forget it; return the files.

        Where `folder` cannot be written, the machine's folder for temporary files is tried; what cannot be written
        anywhere is logged whole.
        """
        files: list[Path] = []
        with self._lock:
            for store, outbox in self._outboxes.items():
                try:
                    payloads = [entry.value for entry in outbox.entries(rejected=True)]
                except OutboxError:
                    _LOG.exception("Writes to memory store %r stay in %s.", store, outbox.place)
                    continue
                if payloads and (file := _export(folder, store, payloads, self._keys.get(store))) is not None:
                    files.append(file)
                outbox.remove_file()
            self._outboxes.clear()
        return files


def _log_lost(store: str, lines: str, key: StoreKey | None) -> None:
    """Log writes that no file takes; of an encrypted store only that there were some, as a log is plain."""
    shown = f"\n{lines}" if key is None else " The store is encrypted, so they are not logged."
    _LOG.critical("These writes to memory store %r could not be saved anywhere:%s", store, shown)


def _open_outbox(folder: Path | None, store: str, key: StoreKey | None) -> Outbox[MemoryWritePayload]:
    def opened(file: Path | None) -> Outbox[MemoryWritePayload]:
        return Outbox(file, dump=dump_payload, load=lambda line: load_payload(json.loads(line)["payload"]))

    if folder is not None:
        file = folder / f"{_file_name(store)}.db"
        if key is not None:
            protect(file, key)
        outbox = opened(file)
        try:
            outbox.put({})
        except OutboxError as error:
            _LOG.warning("Writes to memory store %r that failed are kept in this process alone: %s", store, error)
        else:
            return outbox
    return opened(None)


def _deliver(outbox: Outbox[MemoryWritePayload], write: Write) -> Delivery[WriteOutcome]:
    def send(entries: Sequence[Entry[MemoryWritePayload]]) -> list[WriteOutcome]:
        return [write(entry.value) for entry in entries]

    outbox.readmit()
    return deliver(outbox, send, _POLICY, patience=_PATIENCE)


def _held(outbox: Outbox[MemoryWritePayload]) -> int:
    return outbox.waiting() + outbox.rejected()


def _export(
    folder: Path | None, store: str, payloads: Sequence[MemoryWritePayload], key: StoreKey | None
) -> Path | None:
    lines = "".join(dump_payload(payload) + "\n" for payload in payloads)
    file = _write_somewhere(folder, store, lines, key)
    if file is None:
        _log_lost(store, lines, key)
    else:
        _LOG.error("%d write(s) to memory store %r are in %s; `devmem import` reads it.", len(payloads), store, file)
    return file


def _candidates(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
    yield Path(tempfile.gettempdir())


def file_stem(store: str) -> str:
    """Return the part of a file's name by which the writes to a store are found."""
    return "".join(char if char.isalnum() or char in "-_" else "_" for char in store)


def _file_name(store: str) -> str:
    return f"unsaved-{file_stem(store)}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}_{uuid4().hex[:8]}"


def _write_somewhere(folder: Path | None, store: str, lines: str, key: StoreKey | None) -> Path | None:
    for place in _candidates(folder):
        file = place / f"{_file_name(store)}.jsonl"
        try:
            place.mkdir(parents=True, exist_ok=True)
            if key is not None:
                protect(file, key)
            replace_file(file, sealed_for(file, [lines.encode("ascii")]))
        except OSError as error:
            _LOG.warning("Unsaved writes cannot be put into %s: %s", place, error)
        else:
            return file
    return None


_FILES: Final = "unsaved-*"


def examine_rescued(folder: Path) -> Iterator[FileReport]:
    """Yield a report of each file of unsaved writes in a folder, oldest first."""
    files = folder.glob(_FILES) if folder.is_dir() else ()
    for file in sorted(files, key=lambda each: each.stat().st_mtime):
        if file.suffix == ".jsonl":
            yield examine_rescue_file(file)
        elif file.suffix == ".db":
            yield examine_outbox(file, _load)


def examine_rescue_file(file: Path) -> FileReport:
    """Examine an exported file of unsaved writes."""
    findings, good = [], 0
    try:
        lines = read_file(file).splitlines()
    except (OSError, EncryptionError) as error:
        return FileReport(path=str(file), kind="rescued writes", findings=[damage(f"it cannot be read: {error}")])
    for number, line in enumerate(lines, start=1):
        try:
            _load(line.decode())
        except ValueError as error:
            findings.append(damage(f"line {number} cannot be read: {str(error).splitlines()[0]}"))
        else:
            good += 1
    if good:
        findings.append(
            unfinished(f"{good:,} writes are in no store; `devmem import` reads them, then delete the file")
        )
    facts = {"waiting": good, "oldest_time": file.stat().st_mtime}
    return FileReport(path=str(file), kind="rescued writes", facts=facts, findings=findings)


def _load(line: str) -> object:
    """Return the payload of a line; raises `ValueError` for anything else."""
    raw = json.loads(line)
    if not isinstance(raw, dict) or "payload" not in raw:
        raise ValueError("it is no unsaved write")
    return load_payload(raw["payload"])
