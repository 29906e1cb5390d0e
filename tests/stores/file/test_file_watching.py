"""With `watch`, search follows the files; the watcher ends with the store."""

from __future__ import annotations

import threading
import time

import pytest

from devmem.stores import IndexReport

from .conftest import Folder, names

# watchdog warns, in its own thread, when it sees a new folder twice; as an error this would end the thread.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")

LIMIT = 2.0
"""Seconds from the last write until search knows it."""


class Follower:
    """Collects what the watcher reports."""

    def __init__(self) -> None:
        self.reports: list[IndexReport] = []
        self._more = threading.Condition()

    def __call__(self, report: IndexReport) -> None:
        with self._more:
            self.reports.append(report)
            self._more.notify_all()

    def wait_for(self, name: str) -> float:
        """Wait until a report names a file; gives how many seconds that took."""
        started = time.monotonic()
        with self._more:
            # On a busy machine the thread may come late; the figure is checked by the caller.
            assert self._more.wait_for(lambda: any(name in str(report) for report in self.reports), timeout=20)
        return time.monotonic() - started


def test_changes_deletions_and_moves_are_followed(folder: Folder) -> None:
    follower = Follower()
    store = folder.load()
    store.watch(follower)
    folder.write("new.txt", "the pump")
    assert follower.wait_for("new=('docs/new.txt',)") < LIMIT
    folder.write("deep/er/a.txt", "the valve")
    assert follower.wait_for("docs/deep/er/a.txt") < LIMIT
    (folder.docs / "new.txt").rename(folder.docs / "moved.txt")
    assert follower.wait_for("renamed=(('docs/new.txt', 'docs/moved.txt'),)") < LIMIT
    (folder.docs / "moved.txt").unlink()
    assert follower.wait_for("deleted=('docs/moved.txt',)") < LIMIT
    assert names(store) == ["docs/deep/er/a.txt", "docs/guide.md"]


def test_an_index_in_its_own_source_does_not_feed_itself(folder: Folder) -> None:
    follower = Follower()
    store = folder.load(index_path="docs/index.db")
    store.watch(follower)
    folder.write("a.txt", "x")
    follower.wait_for("docs/a.txt")
    folder.write("b.txt", "x")
    follower.wait_for("docs/b.txt")
    assert len(follower.reports) == 2


def test_what_goes_wrong_is_said_and_watching_goes_on(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("devmem_stores.file.watcher._RETRY", 0.05)
    follower = Follower()
    store = folder.load()
    real, calls = store.index, [0]

    def failing(*arguments: object, **options: object) -> IndexReport:
        calls[0] += 1
        if calls[0] == 1:
            raise OSError("the disk is away")
        return real()

    monkeypatch.setattr(store, "index", failing)
    store.watch(follower)
    folder.write("a.txt", "x")
    follower.wait_for("docs/a.txt")
    assert "the disk is away" in caplog.text
