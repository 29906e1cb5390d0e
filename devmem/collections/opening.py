"""Opening the collection that a location names, by its URL scheme.

`x.json` is a file in DevAll's format, any other path a SQLite file, and no location at all is memory. In a URL the part
before `://` is the scheme; its opener is found through the entry-point group `devmem.collections`, in which SQLite and
JSON are registered like the schemes of any other package.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast, runtime_checkable

from devmem.collections.locations import file_of
from devmem.collections.protocol import DEFAULT_HISTORY_DAYS, Collection, Durability
from devmem.collections.schemes import ENTRY_POINT_GROUP, Discover, find_opener
from devmem.collections.states import NO_STATES
from devmem.collections.store_facts import StoreFacts
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity
from devmem.errors import CollectionError

__all__ = ["ENTRY_POINT_GROUP", "CollectionOpener", "CollectionOptions", "DatabaseOpener", "open_collection"]

MEMORY: Final = ":memory:"
"""Location of a SQLite collection that lives as long as the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionOptions:
    """Options that every kind of collection is opened with."""

    model: ModelIdentity | None = None
    """Embedding model; without one the search is by text alone and new items wait for an embedding."""
    store_type: str | None = None
    """Store type to record in a new collection; one of another type is refused."""
    name: str | None = None
    """Name of the store, by which a database that holds many tells them apart where the location does not."""
    durability: Durability = "full"
    index: IndexConfig | None = None
    """Options of the vector search; None takes the defaults."""
    clock: Callable[[], float] = time.time
    """Current time in seconds since the epoch."""
    busy_timeout: float = 30.0
    """Seconds to wait for another process's write."""
    history_days: float | None = DEFAULT_HISTORY_DAYS
    """Days for which versions are kept after another one took their place; None for good, 0 not at all. A place
    without versions ignores it."""


class CollectionOpener(Protocol):
    """Opens the collections of one URL scheme; the object that an entry point names."""

    def __call__(self, location: str, options: CollectionOptions, /) -> Collection:
        """Open the collection at a location: the whole URL, or the path where the location was one.

        Raises:
            CollectionError: it cannot be opened; the error's type and text say why and what to do.
        """
        ...


@runtime_checkable
class DatabaseOpener(Protocol):
    """Abilities that an opener of databases may have besides opening; asked for with `isinstance`."""

    keeps_states: bool
    """Whether its collections are `StatefulCollection`s."""

    def check(self, location: str, /) -> None:
        """Check a location without connecting.

        Raises:
            CollectionError: it cannot be used as it is written.
            MissingExtraError: a package is missing; the error names the extra.
        """
        ...

    def inspect(self, location: str, name: str | None, /) -> StoreFacts | None:
        """Return what is recorded about the store at a location; None where there is none yet.

        `name` is the store's where the location names none.

        Raises:
            CollectionError: the database cannot be reached.
        """
        ...

    def drop(self, location: str, name: str | None, /) -> bool:
        """Drop the store at a location with everything in it; return whether there was one.

        `name` is the store's where the location names none.

        Raises:
            CollectionError: it cannot be dropped.
        """
        ...


def open_collection(
    location: str | None,
    *,
    model: ModelIdentity | None = None,
    store_type: str | None = None,
    name: str | None = None,
    durability: Durability = "full",
    index: IndexConfig | None = None,
    clock: Callable[[], float] = time.time,
    busy_timeout: float = 30.0,
    history_days: float | None = DEFAULT_HISTORY_DAYS,
    discover: Discover | None = None,
) -> Collection:
    """Open the collection that a location names.

    Args:
        location: `memory/store.db`, `memory.json` or `scheme://...`; None is a collection in memory.
        model: see `CollectionOptions`, as for the next six.
        store_type: see there.
        name: see there.
        durability: see there.
        index: see there.
        clock: see there.
        busy_timeout: see there.
        history_days: see there.
        discover: returns the entry points to look at; None takes those of the installed packages.

    Raises:
        CollectionError: no package opens the scheme, or the collection cannot be opened; user and password of a URL are
            masked in it.
    """
    place = MEMORY if location is None else location
    options = CollectionOptions(
        model=model,
        store_type=store_type,
        name=name,
        durability=durability,
        index=index,
        clock=clock,
        busy_timeout=busy_timeout,
        history_days=history_days,
    )
    return cast("CollectionOpener", find_opener(place, discover))(place, options)


def check_location(location: str, *, states: bool) -> None:
    """Check that a location can be used, as far as this is known without opening it.

    Args:
        location: a path or a URL.
        states: whether the store keeps states beside its items; see `StatefulCollection`.

    Raises:
        CollectionError: no package opens the scheme, the URL is wrong, or nothing keeps states there.
        MissingExtraError: a package is missing; the error names the extra.
    """
    opener = find_opener(location)
    if isinstance(opener, DatabaseOpener):
        opener.check(location)
    if states and not keeps_states(location):
        raise CollectionError(location, NO_STATES)


def keeps_states(location: str) -> bool:
    """Whether a store can keep states beside its items there: in a file, or in a database that has a place for them."""
    if file_of(location) is not None:
        return True
    opener = find_opener(location)
    return isinstance(opener, DatabaseOpener) and opener.keeps_states


def inspect_location(location: str, name: str | None = None) -> StoreFacts | None:
    """Return what a place records about the store in it; None where there is none, or none that can be read.

    Args:
        location: a path or a URL.
        name: name of the store in a database, where the URL names none.

    Raises:
        CollectionError: a database cannot be reached.
        MissingExtraError: a package is missing; the error names the extra.
    """
    path = file_of(location)
    if path is not None:
        from devmem.collections.sqlite.inspection import inspect_file

        return inspect_file(path)
    opener = find_opener(location)
    return opener.inspect(location, name) if isinstance(opener, DatabaseOpener) else None


def drop_location(location: str, name: str | None = None) -> bool:
    """Drop a store of a database with everything in it; return whether there was one.

    Args:
        location: URL of the database.
        name: name of the store where the URL names none.

    Raises:
        CollectionError: it cannot be dropped, or the location is no database.
        MissingExtraError: a package is missing; the error names the extra.
    """
    opener = find_opener(location)
    if not isinstance(opener, DatabaseOpener):
        raise CollectionError(location, "is no database with stores that can be dropped.")
    return opener.drop(location, name)
