"""Errors of a `brain` store.

BrainError
├── BrainCacheError          one place where conversations are kept could not do its part
│   ├── CacheUnavailableError  it does not answer
│   ├── CacheRefusedError      a wrong password, or a user who may not do this
│   └── CacheContentError      the value was not written by this store; it was left as it is
├── BrainIncompleteError     a message is stored, but several things that follow failed
├── BrainFallbackError       a state is kept in a fallback place
└── BrainBusyError           concurrent changes prevented a change
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from devmem import DevmemError


class BrainError(DevmemError):
    """Something is wrong with a `brain` store."""


class BrainCacheError(BrainError):
    """One place where conversations are kept could not do its part; its text never holds the password."""

    advice: ClassVar[str] = ""

    def __init__(self, place: str, operation: str, detail: str) -> None:
        self.place, self.operation, self.detail = place, operation, detail
        advice = f" {self.advice}" if self.advice else ""
        super().__init__(f"{place} could not {operation}: {detail.rstrip('.')}.{advice}")


class CacheUnavailableError(BrainCacheError):
    """It does not answer, or cannot be written."""


class CacheRefusedError(BrainCacheError):
    """The password is wrong, or its user may not do this."""

    advice = "Check `redis.password` and `redis.url` in the store's `config`."


class CacheContentError(BrainCacheError):
    """The value of the key is not the state of a conversation; it was left as it is."""

    advice = "Give the store a `redis.prefix` of its own, or remove that value."


class BrainIncompleteError(BrainError):
    """A message is stored, but several things that follow failed."""

    def __init__(self, causes: Sequence[Exception]) -> None:
        self.causes = tuple(causes)
        super().__init__(f"the message is stored, but {'; and '.join(str(cause).rstrip('.') for cause in causes)}.")


class BrainFallbackError(BrainError):
    """A conversation's state is kept in a fallback place; it is moved when the intended one works again."""

    def __init__(self, store: str, used: str, causes: Sequence[BrainCacheError]) -> None:
        self.store, self.used, self.causes = store, used, tuple(causes)
        why = " ".join(str(cause) for cause in causes)
        super().__init__(f"memory store {store!r} keeps its conversations in {used} for now: {why}")


class BrainBusyError(BrainError):
    """Concurrent changes of others prevented a change of the conversation; nothing was changed here."""

    def __init__(self, store: str, tries: int) -> None:
        self.store, self.tries = store, tries
        super().__init__(f"memory store {store!r}: a conversation was changed by others {tries} times in a row.")
