"""Durable decisions: a file says what was decided before the first change, and goes after the last.

Whoever opens the stores after a crash finishes it: all of it is done, or, without the file, nothing. Runs that end in
several stores are decided so, and erasures in several places. The files hold names, ids and checksums, never texts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from devmem.encryption import read_file, sealed_for
from devmem.redaction import location_without_credentials
from devmem.stores.config import PlaceConfig
from devmem.stores.memory import StoreSetup
from devmem.text.files import WorkMarker, is_at_work, remove_leftovers, replace_file, sync_folder

_LOG: Final = logging.getLogger(__name__)
R = TypeVar("R")


def _write(file: Path, content: Mapping[str, object]) -> None:
    """Write a record, whole and durably."""
    replace_file(file, sealed_for(file, [json.dumps(content).encode("ascii")]))


def _read(files: Iterable[Path], parse: Callable[[dict[str, Any], Path], R], advice: str) -> Iterator[R]:
    """Yield the records of files in their order; one that cannot be read is logged with the advice, and left out."""
    for file in sorted(files):
        try:
            yield parse(json.loads(read_file(file)), file)
        except FileNotFoundError:
            # Another process has just finished it.
            continue
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _LOG.error("%s: holds no decision (%s); %s", file, error, advice)


# The end of a run in several stores: one file.

_SUFFIX: Final = ".commit.json"
RunOperation: TypeAlias = Literal["commit", "revert"]
"""The end of a run in every store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """The decision that a run is committed, or reverted, in several stores."""

    run: str
    stores: tuple[str, ...]
    operation: RunOperation = "commit"

    def write(self, folder: Path) -> Path:
        """Write the record to its own file in a folder, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{hashlib.sha256(self.run.encode()).hexdigest()[:32]}{_SUFFIX}"
        _write(file, {"run": self.run, "stores": self.stores, "operation": self.operation})
        return file


def commit_records(folder: Path) -> list[tuple[Path, CommitRecord]]:
    """Return the records in a folder, with their files."""

    def parse(raw: dict[str, Any], file: Path) -> tuple[Path, CommitRecord]:
        operation: RunOperation = "revert" if raw.get("operation") == "revert" else "commit"
        stores = tuple(map(str, raw["stores"]))
        return file, CommitRecord(run=str(raw["run"]), stores=stores, operation=operation)

    return list(_read(folder.glob(f"*{_SUFFIX}"), parse, "see `devmem runs` for runs that are pending."))


# An erasure in several places: a folder with a file for each, which goes when its place is done. The records become
# valid together, when the folder gets its name.

ERASURES: Final = "forgetting.decided"
"""Name of the folder of decided erasures, within `.devmem` beside the workflow."""
_UNFINISHED: Final = ".part"
_MARKED: Final = "decision"
"""File beside which processes mark the decisions that they carry out; it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRecord:
    """The part of a decided erasure in one place: the items or lines that are erased from it."""

    kind: Literal["store", "pending", "recalls"]
    """A store, or the work that waits, or the log of what agents were shown, in a file of state."""
    place: str
    """Name of the store, or path of the file."""
    names: tuple[str, ...]
    """Ids of the store's items, numbers of rows, or names of the log's parts."""
    session: str = ""
    """Session through which the store is opened."""
    memory_path: str | None = None
    """Place of the store's items, as it is configured, without the user and the password of a URL."""
    user: str | None = None
    """User of all the items; None where they have several, or none."""
    tombstone: bool = False
    """Whether the store keeps tombstones of the items."""
    file: Path | None = None
    """File of this record; None before it is decided."""

    @classmethod
    def of_store(
        cls, setup: StoreSetup, ids: Sequence[str], *, user: str | None, tombstone: bool = False
    ) -> EraseRecord:
        """Return the record of a store."""
        session, path = _key(setup)
        return cls(
            kind="store", place=setup.name, names=tuple(ids), session=session, memory_path=path, user=user,
            tombstone=tombstone,
        )  # fmt: skip

    def belongs_to(self, setup: StoreSetup) -> bool:
        """Whether it is the record of a store."""
        return self.kind == "store" and (self.place, self.session, self.memory_path) == (setup.name, *_key(setup))

    def done(self) -> None:
        """Record that the place is done."""
        if self.file is None:
            return
        self.file.unlink(missing_ok=True)
        try:
            self.file.parent.rmdir()
        except OSError:
            _LOG.debug("%s: other places are not done yet", self.file.parent)


def _key(setup: StoreSetup) -> tuple[str, str | None]:
    path = setup.config.memory_path if isinstance(setup.config, PlaceConfig) else None
    session = setup.session_dir.name if setup.session_dir is not None else ""
    return session, None if path is None else location_without_credentials(path)


def erasures_folder(base_dir: Path) -> Path:
    """Return the folder of a workflow's decided erasures; `base_dir` is where the workflow's paths start."""
    return base_dir / ".devmem" / ERASURES


@contextmanager
def decide_erasure(folder: Path, records: Sequence[EraseRecord]) -> Iterator[list[EraseRecord]]:
    """Decide durably that all of the records are carried out, and yield them with their files.

    Until the block ends, other processes leave them to this one.

    Raises:
        OSError: the decision cannot be written; nothing is decided.
    """
    if not records:
        yield []
        return
    folder.mkdir(parents=True, exist_ok=True)
    marker = WorkMarker(folder / _MARKED)
    try:
        yield _decide(folder / marker.name, records)
    finally:
        marker.remove()


def _decide(decision: Path, records: Sequence[EraseRecord]) -> list[EraseRecord]:
    unfinished = Path(f"{decision}{_UNFINISHED}")
    unfinished.mkdir(mode=0o700)
    try:
        for number, record in enumerate(records):
            form = {key: value for key, value in asdict(record).items() if key != "file"}
            _write(unfinished / f"{number}.json", form)
        unfinished.rename(decision)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync_folder(decision.parent)
    return [replace(record, file=decision / f"{number}.json") for number, record in enumerate(records)]


def _is_executed(decision: Path) -> bool:
    """Whether a living process carries a decision out."""
    return is_at_work(decision.parent / _MARKED, decision.stem)


def erase_records(folder: Path, setup: StoreSetup | None = None) -> list[EraseRecord]:
    """Return the records that are decided, not done, and carried out by no living process; of one store, or of all."""
    if not folder.is_dir():
        return []
    decisions = [each for each in sorted(folder.iterdir()) if each.is_dir() and each.suffix != _UNFINISHED]
    files = [file for decision in decisions if not _is_executed(decision) for file in decision.glob("*.json")]

    def parse(raw: dict[str, Any], file: Path) -> EraseRecord:
        return EraseRecord(**{**raw, "names": tuple(raw["names"]), "file": file})

    found = _read(files, parse, "run `devmem forget` again.")
    return [record for record in found if setup is None or record.belongs_to(setup)]


def remove_undecided(folder: Path) -> None:
    """Remove the remains of processes that died before they decided."""
    remove_leftovers(folder / _MARKED)
    for unfinished in folder.glob(f"*{_UNFINISHED}"):
        if unfinished.is_dir() and not _is_executed(unfinished):
            shutil.rmtree(unfinished, ignore_errors=True)
