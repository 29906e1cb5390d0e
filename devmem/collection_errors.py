"""Errors about the place where a store keeps its items; `devmem.errors` has the tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from devmem.base_error import DevmemError
from devmem.credentials import location_without_credentials, without_credentials


class CollectionError(DevmemError):
    """Something is wrong with the place where a store keeps its items."""

    def __init__(self, location: Path | str, message: str) -> None:
        self.location = location_without_credentials(str(location))
        super().__init__(f"{self.location}: {without_credentials(message)}")


class CollectionDamagedError(CollectionError):
    """The file is not what it should be; it was left as it is."""


class CollectionBusyError(CollectionError):
    """Another process held the write lock for too long; nothing was written."""


class CollectionUnwritableError(CollectionError):
    """The disk is full, the folder is missing or may not be written; nothing was written."""


class CollectionClosedError(CollectionError):
    """The collection was used after `close()`."""


class CollectionInUseError(CollectionError):
    """The file holds the items of another type of store."""


class CollectionReadOnlyError(CollectionError):
    """A view of an earlier state of the collection was asked to write; nothing was written."""

    def __init__(self, location: Path | str, state: str) -> None:
        super().__init__(location, f"{state}, which cannot be changed; write to the collection itself.")


class RunConflictError(CollectionError):
    """A run cannot be committed, or reverted, because others changed the same items since; nothing was changed."""

    def __init__(self, location: Path | str, run: str, ids: Sequence[str]) -> None:
        self.run, self.ids = run, tuple(ids)
        named = ", ".join(map(repr, self.ids[:9])) + (", ..." if self.ids[9:] else "")
        super().__init__(location, f"run {run!r} stays as it is, since others changed or built on {named} meanwhile.")


class RunStateError(CollectionError):
    """A run is not in the state that was needed; nothing was changed."""

    def __init__(self, location: Path | str, run: str, state: str, reason: str) -> None:
        self.run, self.state = run, state
        super().__init__(location, f"run {run!r} is {state}: {reason}.")


class EmbeddingMismatchError(CollectionError):
    """The vectors in the collection were made by another embedding model."""

    def __init__(self, location: Path | str, *, recorded: str, wanted: str, same_name: bool = False) -> None:
        """Word the error; `same_name` is for models of one name, which `devmem reindex` does not tell apart."""
        self.recorded, self.wanted = recorded, wanted
        super().__init__(
            location,
            f"its vectors were made by {recorded}, but the workflow asks for {wanted}. "
            "Vectors of different models are never mixed: put the old model back, "
            f"or run `devmem reindex FILE STORE{' --force' if same_name else ''}` to embed every item again.",
        )


class OutboxError(CollectionError):
    """The outbox, in which writes wait for their receiver, cannot be used now."""


class OutboxFullError(OutboxError):
    """The maximum number of writes waits already; nothing was added."""

    def __init__(self, location: Path | str, limit: int) -> None:
        self.limit = limit
        super().__init__(
            location, f"{limit:,} writes wait here already. Bring the receiver back, or raise the limit, and try again."
        )
