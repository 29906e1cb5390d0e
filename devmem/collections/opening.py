"""Opening the collection that a location names, by its URL scheme.

`x.json` is a file in DevAll's format, any other path a SQLite file, and no location at all is memory. In a URL the part
before `://` is the scheme; its opener is found through the entry-point group `devmem.collections`, in which SQLite and
JSON are registered like the schemes of any other package.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol, TypeAlias

from devmem.collections.protocol import DEFAULT_HISTORY_DAYS, Collection, Durability
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity
from devmem.errors import CollectionError

ENTRY_POINT_GROUP: Final = "devmem.collections"
MEMORY: Final = ":memory:"
"""Location of a SQLite collection that lives as long as the process."""

Discover: TypeAlias = Callable[[], Iterable[EntryPoint]]
"""Returns the entry points of installed packages."""


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
    return _opener(place, discover or _installed)(place, options)


def _scheme_of(location: str) -> str:
    if "://" in location:
        return location.partition("://")[0].lower()
    return "json" if location.endswith(".json") else "sqlite"


@cache
def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _opener(location: str, discover: Discover) -> CollectionOpener:
    scheme = _scheme_of(location)
    # One distribution can be seen twice, as an editable install and on the path.
    claims = {(point.value, _owner(point)): point for point in discover() if point.name == scheme}
    if len(claims) > 1:
        owners = " and by ".join(sorted(owner for _, owner in claims))
        raise CollectionError(location, f"the scheme {scheme!r} is claimed by {owners}; uninstall one of them.")
    if not claims:
        raise _unknown(location, scheme, sorted({point.name for point in discover()}))
    ((_, owner), point), *_ = claims.items()
    try:
        opener: CollectionOpener = point.load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise CollectionError(location, f"the opener of {scheme!r} of {owner} cannot be loaded: {reason}") from error
    return opener


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _unknown(location: str, scheme: str, known: list[str]) -> CollectionError:
    close = difflib.get_close_matches(scheme, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return CollectionError(
        location,
        f"no installed package opens {scheme!r} URLs{hint} Known schemes: {', '.join(known) or 'none'}; "
        "a path such as memory/store.db needs no scheme.",
    )
