"""Opening a PostgreSQL collection by its URL; the entry points `postgresql` and `postgres`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Unpack

from devmem.errors import MissingExtraError
from devmem.model.results import FileReport
from devmem.storage.opening import CollectionOptions, StoreMetadata

if TYPE_CHECKING:
    from devmem.storage.postgres.collection import PostgresCollection


_PACKAGES: Final = ("psycopg", "pgvector")


class PostgresOpener:
    """Opens the store that a URL names, such as `postgresql://user@host/database?store=notes`.

    Every method raises `MissingExtraError` where the extra `postgres` is not installed.
    """

    keeps_states: bool = True

    def __call__(self, location: str, name: str | None, /, **options: Unpack[CollectionOptions]) -> PostgresCollection:
        """Open the store; raises `CollectionError` where it cannot be opened."""
        with _packages():
            from devmem.storage.postgres.collection import PostgresCollection
        return PostgresCollection(location, name=name, **options)

    def check(self, location: str, /) -> None:
        """Check the URL; raises `CollectionError` where it is wrong."""
        with _packages():
            import pgvector  # noqa: F401

            from devmem.storage.postgres.location import Location
        Location.parse(location)

    def inspect(self, location: str, name: str | None, /) -> StoreMetadata | None:
        """Return type and model of the store; raises `CollectionError` where the server cannot be asked."""
        with _packages():
            from devmem.storage.postgres.collection import inspect_store
        return inspect_store(location, name)

    def examine(self, location: str, name: str | None, /) -> FileReport:
        """Report on the store; raises `CollectionError` where the server cannot be asked."""
        with _packages():
            from devmem.storage.postgres.examination import examine_store
        return examine_store(location, name)

    def repair(self, location: str, name: str | None, /) -> list[str]:
        """Repair the store; raises `CollectionError` where it cannot be repaired."""
        with _packages():
            from devmem.storage.postgres.examination import repair_store
        return repair_store(location, name)

    def drop(self, location: str, name: str | None, /) -> bool:
        """Drop the store; raises `CollectionError` where it cannot be dropped."""
        with _packages():
            from devmem.storage.postgres.collection import drop_store
        return drop_store(location, name)


@contextmanager
def _packages() -> Iterator[None]:
    """Name the extra where one of its packages is missing."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise MissingExtraError(feature="PostgreSQL", package=package, extra="postgres") from error


open_postgres: Final = PostgresOpener()
"""The opener of both schemes."""
