"""Durable decisions on what is erased from several places: all of it is erased, or, without the decision, nothing.

A decision is a folder with a file for each place. It becomes valid when the folder gets its name, and each file goes
when its place is done: whoever opens the workflow after a crash finishes the others. The files hold ids and checksums,
never texts.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

from filelock import FileLock, Timeout

from devmem.redaction import location_without_credentials
from devmem.stores.config import PlaceConfig
from devmem.stores.memory import StoreSetup
from devmem.text.files import OWNER_ONLY, replace_file

DECISIONS: Final = "forgetting.decided"
"""Name of the folder of decisions, within `.devmem` beside the workflow."""
_UNFINISHED: Final = ".part"
_LOCK: Final = ".lock"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedPart:
    """Part of a decision: the items or lines that are erased from one place."""

    kind: Literal["store", "lines"]
    """A store, or a file of writes that wait for one."""
    place: str
    """Name of the store, or path of the file."""
    names: tuple[str, ...]
    """Ids of the store's items, or checksums of the file's lines."""
    session: str = ""
    """Session through which the store is opened."""
    memory_path: str | None = None
    """Place of the store's items, as it is configured, without the user and the password of a URL."""
    user: str | None = None
    """User of all the items; None where they have several, or none."""
    file: Path | None = None
    """File of this part; None before it is decided."""

    @classmethod
    def of_store(cls, setup: StoreSetup, ids: Sequence[str], *, user: str | None) -> DecidedPart:
        """Return the part of a store."""
        session, path = _key(setup)
        return cls(kind="store", place=setup.name, names=tuple(ids), session=session, memory_path=path, user=user)

    def belongs_to(self, setup: StoreSetup) -> bool:
        """Whether it is the part of a store."""
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


def decisions_folder(base_dir: Path) -> Path:
    """Return the folder of a workflow's decisions; `base_dir` is where the workflow's paths start."""
    return base_dir / ".devmem" / DECISIONS


@contextmanager
def decided(folder: Path, parts: Sequence[DecidedPart]) -> Iterator[list[DecidedPart]]:
    """Decide durably that the parts are erased, all of them, and yield them with their files.

    Until the block ends, other processes leave the decision to this one.

    Raises:
        OSError: the decision cannot be written; nothing is decided.
    """
    if not parts:
        yield []
        return
    name = uuid4().hex
    folder.mkdir(parents=True, exist_ok=True)
    lock = _lock_of(folder / name)
    with lock:
        try:
            yield _decide(folder, name, parts)
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)


def _lock_of(decision: Path) -> FileLock:
    return FileLock(f"{decision}{_LOCK}", mode=OWNER_ONLY)


def _is_carried_out(decision: Path) -> bool:
    """Whether a living process carries a decision out."""
    if not Path(f"{decision}{_LOCK}").exists():
        return False
    try:
        with _lock_of(decision).acquire(timeout=0):
            return False
    except Timeout:
        return True


def _decide(folder: Path, name: str, parts: Sequence[DecidedPart]) -> list[DecidedPart]:
    unfinished, decision = folder / f"{name}{_UNFINISHED}", folder / name
    unfinished.mkdir(mode=0o700)
    try:
        for number, part in enumerate(parts):
            form = {key: value for key, value in asdict(part).items() if key != "file"}
            replace_file(unfinished / f"{number}.json", [json.dumps(form).encode("ascii")])
        unfinished.rename(decision)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _sync(folder)
    return [replace(part, file=decision / f"{number}.json") for number, part in enumerate(parts)]


def _sync(folder: Path) -> None:
    """Make a new name in a folder survive a power loss, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def decided_parts(folder: Path) -> list[DecidedPart]:
    """Return the parts that were decided, are not done, and are carried out by no living process."""
    if not folder.is_dir():
        return []
    decisions = [each for each in sorted(folder.iterdir()) if each.is_dir() and each.suffix != _UNFINISHED]
    return [
        part
        for decision in decisions
        if not _is_carried_out(decision)
        for file in sorted(decision.glob("*.json"))
        if (part := _read(file)) is not None
    ]


def _read(file: Path) -> DecidedPart | None:
    """Return the part of a file; None, after an error in the log, where it holds none."""
    try:
        raw = json.loads(file.read_text(encoding="ascii"))
        return DecidedPart(**{**raw, "names": tuple(raw["names"]), "file": file})
    except FileNotFoundError:
        # Another process has just done it.
        return None
    except (ValueError, TypeError, KeyError) as error:
        _LOG.error("%s: holds no decision (%s); run `devmem forget` again.", file, error)
        return None


def parts_of_store(setup: StoreSetup) -> list[DecidedPart]:
    """Return the parts of one store that were decided and are not done."""
    return [part for part in decided_parts(decisions_folder(setup.base_dir)) if part.belongs_to(setup)]


def remove_undecided(folder: Path) -> None:
    """Remove what processes left behind that died before they decided."""
    for lock in folder.glob(f"*{_LOCK}") if folder.is_dir() else ():
        decision = lock.with_suffix("")
        if not decision.is_dir() and not _is_carried_out(decision):
            shutil.rmtree(decision.with_suffix(_UNFINISHED), ignore_errors=True)
            lock.unlink(missing_ok=True)
