"""Fencing the writes of a sharded store: a shard takes none from a process that routes by another map of the shards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

EXPECTED_MAP: Final[ContextVar[int | None]] = ContextVar("devmem_shard_map", default=None)
"""Version of the map that writes expect; None outside a sharded store."""


class StaleMapError(Exception):
    """A shard has another version of the map than the caller, who has to read it and route again."""

    def __init__(self, version: int) -> None:
        self.version = version
        """Version of the map that the shard has; 0 for none."""
        super().__init__(f"the shard has version {version} of the map")


@contextmanager
def expecting_map(version: int) -> Iterator[None]:
    """Refuse the writes of a `with` block in a shard whose map has another version: they raise `StaleMapError`."""
    token = EXPECTED_MAP.set(version)
    try:
        yield
    finally:
        EXPECTED_MAP.reset(token)


def check_map(version: int) -> None:
    """Raise `StaleMapError` where a shard's map has another version than writes expect."""
    if (expected := EXPECTED_MAP.get()) is not None and expected != version:
        raise StaleMapError(version)
