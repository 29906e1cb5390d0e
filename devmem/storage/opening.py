"""Opening the collection that a location names, by its URL scheme.

`x.json` is a file in DevAll's format, any other path a SQLite file, and no location at all is memory. In a URL the part
before `://` is the scheme; its opener is found through the entry-point group `devmem.collections`, in which SQLite and
JSON are registered like the schemes of any other package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypedDict, Unpack, cast, runtime_checkable

from devmem import telemetry
from devmem.config.store import IndexConfig
from devmem.errors import CollectionError, PluginError, UnknownPluginError
from devmem.model.results import FileReport
from devmem.models.embedder import ModelIdentity
from devmem.plugin_registry import PluginRegistry
from devmem.redaction import location_without_credentials
from devmem.storage.protocol import NO_STATES, Collection, Durability

_FILE_URLS: Final = {"sqlite": "db", "json": "json"}
"""Schemes of files, with the ending of an example."""
STATES_SUFFIX: Final = ".states"
"""End of the name of the SQLite file beside a `.json` file, which holds items alone."""
_WITHOUT_SLASHES: Final = re.compile(r"(?P<scheme>sqlite|json|postgres|postgresql):(?!//)", re.IGNORECASE)
_CONNECTION_STRING: Final = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|password|service)\s*=")


def check_spelling(location: str) -> None:
    """Refuse what looks like the URL of a database and would become a file of a strange name.

    Raises:
        CollectionError: the scheme of a URL is there but not `//`, or it is a connection string of libpq.
    """
    if found := _WITHOUT_SLASHES.match(location):
        raise CollectionError(location, f"a URL begins with {found['scheme']}:// (two slashes after the colon).")
    if "://" not in location and _CONNECTION_STRING.search(location):
        raise CollectionError(
            "the location",
            "looks like a connection string of libpq; write it as a URL: postgresql://HOST:PORT/DATABASE.",
        )


def file_of(location: str) -> str | None:
    """Return the path of the file that a location names: a path, `sqlite:///x.db` or `json:///x.json`.

    Returns:
        The path; None where the location is a URL of something else than a file.

    Raises:
        CollectionError: the URL of a file has not three slashes, or a URL is misspelled so that it looks like a path.
    """
    check_spelling(location)
    scheme, separator, path = location.partition("://")
    if not separator:
        return location
    example = _FILE_URLS.get(scheme.lower())
    if example is None:
        return None
    if not path.startswith("/"):
        raise CollectionError(
            location, f"a file's URL has three slashes and its path, as in {scheme}:///memory/store.{example}."
        )
    return path.removeprefix("/")


def path_of(location: str) -> str:
    """Return the path of a location that has to be a file; raises `CollectionError` for any other."""
    path = file_of(location)
    if path is None:
        raise CollectionError(location, "is not a file.")
    return path


def _scheme_of(location: str) -> str:
    if "://" in location:
        return location.partition("://")[0].lower()
    return "json" if location.endswith(".json") else "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMetadata:
    """Which store a place belongs to."""

    store_type: str | None
    model: str | None
    """Name of the model that made its vectors; None when there are none yet."""
    words_only: bool = False
    """Whether it has no model on purpose, since it was opened with `embedding=None`."""


MEMORY: Final = ":memory:"
"""Location of a SQLite collection that lives as long as the process."""


class CollectionOptions(TypedDict, total=False):
    """Options that every kind of collection is opened with; one that has no use for an option ignores it."""

    model: ModelIdentity | None
    """Embedding model; without one the search is by text alone and new items wait for an embedding."""
    store_type: str | None
    """Store type to record in a new collection; one of another type is refused."""
    durability: Durability
    """`full` by default."""
    index: IndexConfig | None
    """How vectors are searched, and which metadata are indexed; None takes the defaults."""
    clock: Callable[[], float]
    """Current time in seconds since the epoch, for expiry."""
    busy_timeout: float
    """Seconds to wait for another process's write, or for a server; 30 by default."""
    history_days: float | None
    """Days for which versions are kept after another one took their place; None permanently, 0 not at all."""


class CollectionOpener(Protocol):
    """Opens the collections of one URL scheme; the object that an entry point names."""

    def __call__(self, location: str, name: str | None, /, **options: Unpack[CollectionOptions]) -> Collection:
        """Open the collection at a location: the whole URL, or the path where the location was one.

        `name` is the store's, by which a database that holds many tells them apart where the location does not.

        Raises:
            CollectionError: it cannot be opened; the error's type and text say why and what to do.
        """
        ...


@runtime_checkable
class DatabaseOpener(Protocol):
    """Abilities that an opener of databases may have besides opening; asked for with `isinstance`.

    `name` is the store's where the location names none. Each method raises `CollectionError` where the database cannot
    be used.
    """

    keeps_states: bool
    """Whether its collections are `StatefulCollection`s."""

    def check(self, location: str, /) -> None:
        """Check a location without connecting.

        Raises:
            CollectionError: its address cannot be used.
            MissingExtraError: a package is missing; the error names the extra.
        """
        ...

    def inspect(self, location: str, name: str | None, /) -> StoreMetadata | None:
        """Return what is recorded about the store at a location; None where there is none yet."""
        ...

    def examine(self, location: str, name: str | None, /) -> FileReport:
        """Report on the store at a location, without changing it: damage, and work that waits."""
        ...

    def repair(self, location: str, name: str | None, /) -> list[str]:
        """Rebuild what can be rebuilt of the store at a location; return what was done, one line each."""
        ...

    def drop(self, location: str, name: str | None, /) -> bool:
        """Drop the store at a location with everything in it; return whether there was one."""
        ...


def _opener(_scheme: str, found: object) -> CollectionOpener:
    if not callable(found):
        raise TypeError(f"{found!r} cannot be called to open a collection")
    return cast("CollectionOpener", found)


OPENERS: Final = PluginRegistry("URL scheme", "devmem.collections", _opener)


def find_opener(location: str) -> CollectionOpener:
    """Load the opener of a location's scheme, or of files where the location is a path.

    Raises:
        CollectionError: no package opens the scheme, several do, the package cannot be imported, or the location is a
            misspelled URL.
    """
    check_spelling(location)
    try:
        return OPENERS.get(_scheme_of(location))
    except UnknownPluginError as error:
        hint = f"; did you mean {error.suggestion!r}?" if error.suggestion else "."
        raise CollectionError(
            location,
            f"no installed package opens {error.name!r} URLs{hint} Known schemes: {', '.join(error.known) or 'none'}; "
            "a path such as memory/store.db needs no scheme.",
        ) from error
    except PluginError as error:
        raise CollectionError(location, str(error)) from error


def open_collection(
    location: str | None, *, name: str | None = None, **options: Unpack[CollectionOptions]
) -> Collection:
    """Open the collection that a location names.

    Args:
        location: `memory/store.db`, `memory.json` or `scheme://...`; None is a collection in memory.
        name: name of the store, by which a database that holds many tells them apart where the location does not.
        options: see `CollectionOptions`.

    Raises:
        CollectionError: no package opens the scheme, or the collection cannot be opened; user and password of a URL are
            masked in it.
    """
    place = MEMORY if location is None else location
    opener = find_opener(place)
    file = None if location is None else file_of(location)
    if not telemetry.is_enabled() or file is None or Path(file).exists():
        return opener(place, name, **options)
    with telemetry.memory_operation("create_memory_store", name or place):
        return opener(place, name, **options)


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
    has_states = file_of(location) is not None or (isinstance(opener, DatabaseOpener) and opener.keeps_states)
    if states and not has_states:
        raise CollectionError(location, NO_STATES)


def inspect_location(location: str, name: str | None = None) -> StoreMetadata | None:
    """Return what a place records about the store in it; None where there is none.

    Args:
        location: a path or a URL.
        name: name of the store in a database, where the URL names none.

    Raises:
        CollectionError: a database cannot be reached, or a file is damaged or locked.
        MissingExtraError: a package is missing; the error names the extra.
    """
    path = file_of(location)
    if path is not None and _scheme_of(location) == "json":
        from devmem.storage.json_format import is_words_only

        return StoreMetadata(store_type=None, model=None, words_only=True) if is_words_only(path) else None
    if path is not None:
        from devmem.storage.sqlite.examination import inspect_file

        return inspect_file(path)
    opener = find_opener(location)
    return opener.inspect(location, name) if isinstance(opener, DatabaseOpener) else None


def drop_location(location: str, name: str | None = None) -> bool:
    """Drop a store of a database with everything in it; return whether there was one.

    Args:
        location: URL of the database.
        name: name of the store where the URL names none.

    Raises:
        CollectionError: it cannot be dropped, or the location is not a database.
        MissingExtraError: a package is missing; the error names the extra.
    """
    opener = find_opener(location)
    if not isinstance(opener, DatabaseOpener):
        raise CollectionError(location, "is not a database with stores that can be dropped.")
    with telemetry.memory_operation("delete_memory_store", name or location_without_credentials(location), (location,)):
        return opener.drop(location, name)
