"""Waiting for the indexes that collections build in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_PAUSE: Final = 0.05
"""Seconds between two searches."""
_LONGEST: Final = 3_600.0
"""Seconds after which a build counts as stuck."""
_THREADS: Final = "devmem-index"


class IndexBuilds:
    """Builds of the collections that are opened after this was made; those of others in the process do not count."""

    def __init__(self) -> None:
        self._before = frozenset(threading.enumerate())

    def settle(self, search: Callable[[], object]) -> None:
        """Search until no index is being built; a search takes over what was built, which ends the thread.

        Raises:
            RuntimeError: an index is still being built after an hour.
        """
        until = time.monotonic() + _LONGEST
        search()
        while self._running():
            if time.monotonic() > until:
                raise RuntimeError(f"an index is still being built after {_LONGEST:g} s")
            time.sleep(_PAUSE)
            search()

    def _running(self) -> bool:
        return any(each.name.startswith(_THREADS) for each in threading.enumerate() if each not in self._before)
