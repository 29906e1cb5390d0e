"""Values that a store keeps beside its items, in the database of these: states of conversations, a record of files."""

from __future__ import annotations

from collections.abc import Collection as Several
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias, runtime_checkable

from devmem.collections.protocol import Collection
from devmem.errors import CollectionError

NO_STATES: Final = "keeps items alone, and this store has to keep more: use a file's path, or a URL of PostgreSQL."

StateKey: TypeAlias = tuple[str, str]
"""Kind and name of a value."""


class StateTable(Protocol):
    """Values of a store by kind and name; safe to use from several threads and processes.

    Every method raises `CollectionError` where the database cannot do its work.
    """

    def get(self, keys: Several[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there, as of one moment."""
        ...

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind, in order."""
        ...

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind with their names, in the order of these, as of one moment."""
        ...

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction, durable when it returns.

        Args:
            values: the new values; None deletes one.
            expected: values that have to be there, None for none; only then anything is written.

        Returns:
            Whether the expected values were there.
        """
        ...

    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends; waits as long as it takes.

        Where the connection to the database is lost meanwhile, others may begin before the block ends.
        """
        ...


@runtime_checkable
class StatefulCollection(Protocol):
    """A collection that keeps further values of its store, so that nothing has to be in files beside it."""

    @property
    def states(self) -> StateTable:
        """The values of the store."""
        ...


def states_of(collection: Collection) -> StateTable:
    """Return the values of a store that its collection keeps.

    Raises:
        CollectionError: it keeps none.
    """
    if not isinstance(collection, StatefulCollection):
        raise CollectionError(collection.info().location, NO_STATES)
    return collection.states
