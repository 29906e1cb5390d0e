"""Configuration of the `sharded` store type."""

from __future__ import annotations

from pydantic import Field

from devmem.stores import ConfigModel


class ShardedConfig(ConfigModel):
    """Configuration of a `sharded` store."""

    stores: tuple[str, ...] = Field(min_length=1)
    """Names of the stores of the same workflow that hold the items. Their order and number decide where an item goes:
    what is stored stays where it is when they change, and is still found."""

    @property
    def composes(self) -> tuple[str, ...]:
        """The stores that this one opens."""
        return self.stores
