"""Following changes: events of the file system are collected until a burst is over, then one pass indexes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from devmem.errors import MissingExtraError
from devmem.forks import abandon, follow_forks

try:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer
except ImportError as error:
    raise MissingExtraError(feature="`watch: true` of a file store", package="watchdog", extra="watch") from error

_LOG: Final = logging.getLogger("devmem.stores.file")
_WRITES: Final = frozenset(["created", "modified", "moved", "deleted", "closed"])
"""Kinds of event that may mean another content, unlike opening and reading."""
_QUIET: Final = 0.25
"""Seconds without an event after which a burst is over."""
_PATIENCE: Final = 1.0
"""Seconds after which a burst that does not end is indexed all the same."""
_RETRY: Final = 5.0
"""Seconds after which a pass that failed is tried again."""


class _Changes(FileSystemEventHandler):
    """Collects the times of changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: float | None = None
        self._last = 0.0
        self.seen = threading.Event()

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Note an event."""
        if event.event_type in _WRITES:
            self.note()

    def note(self) -> None:
        """Note that something changed now."""
        with self._lock:
            self._last = time.monotonic()
            self._first = self._last if self._first is None else self._first
        self.seen.set()

    def pause(self) -> float:
        """Return the seconds to wait until the burst may be over; 0 ends it."""
        with self._lock:
            now = time.monotonic()
            begun = self._first if self._first is not None else now
            pause = min(self._last + _QUIET, begun + _PATIENCE) - now
            if pause <= 0:
                self._first = None
                self.seen.clear()
            return max(pause, 0.0)


class Watcher:
    """Watches folders and calls `take_in`, in its own thread, after each burst of changes."""

    def __init__(self, folders: Sequence[tuple[Path, bool]], take_in: Callable[[], None], name: str) -> None:
        """Begin to watch.

        Args:
            folders: each with whether those below it matter too.
            take_in: called after changes; what it raises is logged, and it is called again later.
            name: the store's, for messages.
        """
        self._folders, self._take_in, self._name = folders, take_in, name
        self._begin()
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Watch with own threads; stopping the inherited observer would end the parent's watch."""
        abandon(self._observer)
        if not self._stop.is_set():
            self._begin()

    def _begin(self) -> None:
        self._changes = _Changes()
        self._stop = threading.Event()
        self._observer = Observer()
        for folder, deep in self._folders:
            try:
                self._observer.schedule(self._changes, str(folder), recursive=deep)
            except OSError as error:
                _LOG.warning(
                    "memory store %r: changes in %s are seen at the next load only, it cannot be watched: %s",
                    self._name, folder, error,
                )  # fmt: skip
        self._thread = threading.Thread(target=self._run, name=f"devmem-watch-{self._name}", daemon=True)
        self._observer.start()
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._changes.seen.wait()
            while not self._stop.is_set() and (pause := self._changes.pause()) > 0:
                self._stop.wait(pause)
            if self._stop.is_set():
                return
            try:
                self._take_in()
            except Exception:  # noqa: BLE001 - see below
                # Nobody waits for this thread: its failures are logged here, and the changes are tried again.
                _LOG.exception("memory store %r: changed files could not be indexed; trying again", self._name)
                self._stop.wait(_RETRY)
                self._changes.note()

    def close(self) -> None:
        """Stop watching; a pass that runs is waited for."""
        self._stop.set()
        self._changes.seen.set()
        self._observer.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._observer.join()
