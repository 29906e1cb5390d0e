"""Shared by the parts of the suite: the opening of a collection, and items to store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, Protocol

import pytest

from devmem import MemoryItem
from devmem.storage import Collection
from devmem.stores import ModelIdentity
from devmem.testing import HashEmbedder
from devmem.testing.abilities import OnlyWhatApplies

EMBEDDER: Final = HashEmbedder(dimension=32, name="suite:hash")
MODEL: Final = EMBEDDER.identity


class OpenCollection(Protocol):
    """Opens the same place each time it is called; the suite closes what it opens."""

    def __call__(self, *, model: ModelIdentity | None = None, clock: Callable[[], float] = time.time) -> Collection:
        """Open it for vectors of `model`; `clock` gives the time in seconds since the epoch, for expiry."""
        ...


def item(text: str, **fields: Any) -> MemoryItem:
    """Return an item with its embedding."""
    return MemoryItem(content_summary=text, **{"embedding": EMBEDDER.vector(text), **fields})


def waiting_item(text: str, **fields: Any) -> MemoryItem:
    """Return an item that waits for its embedding."""
    return MemoryItem(content_summary=text, **fields)


def ids(items: Sequence[MemoryItem]) -> list[str]:
    """Return the items' ids, in order."""
    return [one.id for one in items]


class Opening(OnlyWhatApplies):
    """The fixtures; the test class that uses the suite supplies `open_collection`."""

    persists: ClassVar[bool] = True
    """Items are there again when the place is opened again, also while it is still open elsewhere."""
    records_fields: ClassVar[bool] = True
    """The collection is a `SupportsFieldIndex`."""

    @pytest.fixture
    def opened(self, open_collection: OpenCollection) -> Iterator[OpenCollection]:
        """Open collections that are closed when the test is over."""
        collections: list[Collection] = []

        def opened(*, model: ModelIdentity | None = None, clock: Callable[[], float] = time.time) -> Collection:
            collections.append(open_collection(model=model, clock=clock))
            return collections[-1]

        yield opened
        for collection in collections:
            collection.close()

    @pytest.fixture
    def collection(self, opened: OpenCollection) -> Collection:
        """A new collection for vectors of `MODEL`."""
        return opened(model=MODEL)
