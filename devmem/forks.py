"""Forks of this process: what a child must not share is released before one, and starts again in the child.

A child has a copy of every object and none of the parent's other threads: a lock that one of those held stays held
forever. It also inherits SQLite's own record of the file locks that the process holds, which the system grants to the
parent alone. A child would wait forever for a transaction that was open at the fork, and lose what it writes when the
parent closes the file. So a fork waits for the transactions of other threads, and no file is open while it happens.
"""

from __future__ import annotations

import logging
import os
import threading
from types import TracebackType
from typing import Final, Protocol, runtime_checkable
from weakref import WeakSet

_LOCKS: Final = {type(make()): make for make in (threading.Lock, threading.RLock, threading.Condition)}
_PATIENCE: Final = 30.0
"""Seconds that a fork waits, as long as SQLite waits for another process's transaction."""
_ABANDONED: Final[list[object]] = []
_LOG: Final = logging.getLogger(__name__)


@runtime_checkable
class SupportsRelease(Protocol):
    """Holds what a child must not share, and obtains it again when it is needed."""

    def release_before_fork(self) -> None:
        """Release it, unless another thread is using it; never wait."""
        ...


@runtime_checkable
class SupportsRestart(Protocol):
    """Has a state in the parent that is of no use in a child."""

    def restart_in_child(self) -> None:
        """Begin again; the locks are still those of the parent, held or not, and are replaced afterwards."""
        ...


class _Forks:
    """Prepares forks, which wait until no other thread is in a `with` block of this object."""

    def __init__(self) -> None:
        self._following: WeakSet[object] = WeakSet((self,))
        self._registering = threading.Lock()
        self._changed = threading.Condition()
        self._depths: dict[int, int] = {}
        """Number of blocks that each thread is in."""
        self._forking: int | None = None
        """The thread that is about to fork."""

    def follow(self, owner: object) -> None:
        """Prepare an object for each fork, too."""
        with self._registering:
            self._following.add(owner)

    def __enter__(self) -> None:
        me = threading.get_ident()
        depth = self._depths.get(me, 0)
        # Entered before looking: whoever begins to fork looks at the entries afterwards.
        self._depths[me] = depth + 1
        if self._forking is not None and not depth and self._forking != me:
            with self._changed:
                del self._depths[me]
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._forking is None)
                self._depths[me] = 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        me = threading.get_ident()
        if self._depths[me] > 1:
            self._depths[me] -= 1
            return
        del self._depths[me]
        if self._forking is not None:
            with self._changed:
                self._changed.notify_all()

    def before(self) -> None:
        """Wait for the other threads' blocks, let none begin one, and release what a child must not share."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._forking is None, _PATIENCE)
            self._forking = me
            if not self._changed.wait_for(lambda: not self._depths.keys() - {me}, _PATIENCE):
                _LOG.warning("forking beside a transaction that goes on: the child may find the database locked.")
        with self._registering:
            following = list(self._following)
        for owner in following:
            if isinstance(owner, SupportsRelease):
                owner.release_before_fork()

    def after_in_parent(self) -> None:
        """Let blocks begin again."""
        with self._changed:
            self._forking = None
            self._changed.notify_all()

    def after_in_child(self) -> None:
        """Restart what lived in the parent's threads, and replace the locks."""
        me = threading.get_ident()
        self._depths, self._forking = {me: self._depths[me]} if me in self._depths else {}, None
        for owner in list(self._following):
            if isinstance(owner, SupportsRestart):
                owner.restart_in_child()
            for name, value in list(vars(owner).items()):
                if type(value) in _LOCKS:
                    setattr(owner, name, _LOCKS[type(value)]())


UNFORKED: Final = _Forks()
"""`with UNFORKED:` delays forks by other threads until the block ends: for transactions of SQLite. It may be nested."""


def follow_forks(owner: object) -> None:
    """Call the methods of `SupportsRelease` and `SupportsRestart` that an object has, and replace its locks.

    The locks are the attributes that are a `Lock`, an `RLock` or a `Condition`; no other object may hold on to them.
    """
    UNFORKED.follow(owner)


def abandon(*inherited: object) -> None:
    """Keep what a child inherited from being closed, even when the child ends: the parent goes on using it."""
    _ABANDONED.extend(inherited)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=UNFORKED.before, after_in_parent=UNFORKED.after_in_parent, after_in_child=UNFORKED.after_in_child
    )
