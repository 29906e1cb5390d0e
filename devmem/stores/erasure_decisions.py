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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

from devmem.stores.collection_config import PlaceConfig
from devmem.stores.setup import StoreSetup
from devmem.text.atomic_write import replace_file

DECISIONS: Final = "forgetting.decided"
"""Name of the folder of decisions, within `.devmem` beside the workflow."""
_UNFINISHED: Final = ".part"
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
    """Place of the store's items, as it is configured."""
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
    return setup.session_dir.name if setup.session_dir is not None else "", path


def decisions_folder(base_dir: Path) -> Path:
    """Return the folder of a workflow's decisions; `base_dir` is where the workflow's paths start."""
    return base_dir / ".devmem" / DECISIONS


def decide(folder: Path, parts: Sequence[DecidedPart]) -> list[DecidedPart]:
    """Decide durably that the parts are erased, all of them; return them with their files.

    Raises:
        OSError: the decision cannot be written; nothing is decided.
    """
    if not parts:
        return []
    name = uuid4().hex
    unfinished, decided = folder / f"{name}{_UNFINISHED}", folder / name
    unfinished.mkdir(parents=True)
    try:
        for number, part in enumerate(parts):
            form = {key: value for key, value in asdict(part).items() if key != "file"}
            replace_file(unfinished / f"{number}.json", [json.dumps(form).encode("ascii")])
        unfinished.rename(decided)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _sync(folder)
    return [replace(part, file=decided / f"{number}.json") for number, part in enumerate(parts)]


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
    """Return the parts that were decided and are not done."""
    if not folder.is_dir():
        return []
    found: list[DecidedPart] = []
    for file in sorted(folder.glob("*/*.json")):
        if file.parent.suffix == _UNFINISHED:
            continue
        try:
            raw = json.loads(file.read_text(encoding="ascii"))
            found.append(DecidedPart(**{**raw, "names": tuple(raw["names"]), "file": file}))
        except FileNotFoundError:
            # Another process has just done it.
            continue
        except (ValueError, TypeError, KeyError) as error:
            _LOG.error("%s: holds no decision (%s); run `devmem forget` again.", file, error)
    return found


def parts_of_store(setup: StoreSetup) -> list[DecidedPart]:
    """Return the parts of one store that were decided and are not done."""
    return [part for part in decided_parts(decisions_folder(setup.base_dir)) if part.belongs_to(setup)]


def remove_undecided(folder: Path) -> None:
    """Remove what processes left behind that died before they decided; call it where none is about to decide."""
    for unfinished in folder.glob(f"*{_UNFINISHED}") if folder.is_dir() else ():
        shutil.rmtree(unfinished, ignore_errors=True)
