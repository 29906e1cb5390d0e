"""Configuration of the `blackboard` store type."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from devmem.config.base import KNOWN_HOME
from devmem.stores import Duration, KeysConfig, PlaceConfig, RetentionConfig


class BlackboardConfig(KeysConfig, RetentionConfig, PlaceConfig):
    """Configuration of a `blackboard` store."""

    has_similarity: ClassVar[bool] = False

    memory_path: Annotated[str, KNOWN_HOME] | None = "auto"
    """Where the entries live: a path (SQLite, or DevAll's format when it ends in `.json`), `auto` for a file of the
    session, null for this process only."""
    max_items: int | None = Field(default=1000, ge=1)
    """Maximum number of entries; the oldest are deleted first. Null keeps everything."""
    max_age: Duration | None = None
    """Another name of `ttl`: how long an entry stays on the board. Absent means until `max_items` pushes it out."""
    order: Literal["newest", "chronological"] = "newest"
    """Order of the entries: the newest first, or as they happened."""

    @model_validator(mode="after")
    def _name_it_once(self) -> Self:
        if self.max_age is not None and self.ttl is not None:
            raise ValueError("`max_age` and `ttl` mean the same; give one of them")
        return self

    @property
    def lifetime(self) -> float | None:
        """Seconds that an entry stays, by either name; None for ever."""
        return self.max_age if self.ttl is None else self.ttl
