"""Runs over several stores: each store commits by itself, and what was decided is finished after a crash."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devmem.errors import RunConflictError, RunStateError
from devmem.stores.memory import MemoryBase
from devmem.stores.versioned import versions_of, viewed
from devmem.text.atomic_write import replace_file

_LOG: Final = logging.getLogger(__name__)
_SUFFIX: Final = ".commit.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDecision:
    """The durable decision that a run is committed in all of its stores."""

    run: str
    stores: tuple[str, ...]

    def write(self, folder: Path) -> Path:
        """Write the decision to a file of its own in a folder, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{hashlib.sha256(self.run.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}{_SUFFIX}"
        replace_file(file, [json.dumps({"run": self.run, "stores": self.stores}).encode()])
        return file

    @staticmethod
    def read(file: Path) -> CommitDecision:
        """Return the decision of a file; raise `ValueError` when it holds none."""
        raw = json.loads(file.read_text(encoding="utf-8"))
        return CommitDecision(run=str(raw["run"]), stores=tuple(map(str, raw["stores"])))


class StoreRun:
    """A pending run in several stores."""

    def __init__(
        self, run: str, stores: Mapping[str, MemoryBase], *, decisions: Path | None, actor: str | None = None
    ) -> None:
        """Open a view of each store; nothing is written yet.

        Args:
            run: id of the run.
            stores: the stores, by name, each of which keeps versions.
            decisions: folder of decisions that are not carried out yet; None where a crash between the commits of two
                stores may leave the run committed in one of them.
            actor: who makes the changes, for the history.

        Raises:
            NoVersionsError: a store keeps no versions.
            RunStateError: the run has ended in a store.
        """
        self.run, self._decisions = run, decisions
        self._collections = {name: versions_of(store) for name, store in stores.items()}
        self.stores: dict[str, MemoryBase] = {}
        """The stores as the run sees and changes them, by name."""
        try:
            for name, store in stores.items():
                self.stores[name] = viewed(store, self._collections[name].run(run, actor=actor))
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Make sure that the run can be committed in every store, as far as can be told before.

        Raises:
            RunConflictError: others changed the same items in one of the stores.
        """
        for name in self._written():
            if found := self._collections[name].conflicts(self.run):
                raise RunConflictError(name, self.run, found)

    def commit(self) -> None:
        """Commit the run in every store that it wrote to.

        Raises:
            RunConflictError: others changed the same items in one of the stores; nothing was committed.
        """
        self.close()
        self.check()
        written = self._written()
        decision = CommitDecision(run=self.run, stores=tuple(written))
        file = decision.write(self._decisions) if self._decisions is not None and len(written) > 1 else None
        for name in written:
            self._collections[name].commit(self.run)
        if file is not None:
            file.unlink(missing_ok=True)

    def discard(self) -> None:
        """Drop what the run wrote, in every store."""
        self.close()
        for name in self._written():
            self._collections[name].discard(self.run)

    def close(self) -> None:
        """Release the views; the run stays as it is."""
        for store in self.stores.values():
            store.close()

    def _written(self) -> list[str]:
        return [name for name, collection in self._collections.items() if collection.find_run(self.run) is not None]


def finish_decided(folder: Path, stores: Mapping[str, MemoryBase]) -> list[str]:
    """Commit what an earlier process had decided to commit, as far as the stores are there; return the runs.

    A store that refuses, because others changed the same items in the meantime, is logged and keeps the run pending.
    """
    finished: list[str] = []
    for file in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            decision = CommitDecision.read(file)
        except (ValueError, KeyError, TypeError) as error:
            _LOG.error("%s: holds no decision (%s); see `devmem runs` for runs that are pending.", file, error)
            continue
        if all(name in stores for name in decision.stores):
            for name in decision.stores:
                _finish(decision.run, stores[name])
            file.unlink(missing_ok=True)
            finished.append(decision.run)
    return finished


def _finish(run: str, store: MemoryBase) -> None:
    try:
        versions_of(store).commit(run)
    except (RunConflictError, RunStateError) as error:
        _LOG.error("memory store %r: a run that was decided is not committed: %s", store.name, error)
