"""Configuration of the `long_term` store type."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from devmem.config.base import KNOWN_HOME
from devmem.stores import CollectionConfig, RetentionConfig

_SECONDS_A_DAY: Final = 86_400.0
_ACTIONS_SCHEMA: Final = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}], "default": []}
)


def _one_or_many(actions: object) -> object:
    return [actions] if isinstance(actions, str) else actions


class LongTermConfig(RetentionConfig, CollectionConfig):
    """Configuration of a `long_term` store."""

    memory_path: Annotated[str, KNOWN_HOME] | None = "auto"
    """Where the messages live: a path (SQLite, or DevAll's format when it ends in `.json`), `auto` for a file of the
    session, null for this process only."""
    watch: Annotated[list[str], BeforeValidator(_one_or_many), _ACTIONS_SCHEMA] = Field(default_factory=list)
    """Actions whose messages are kept for long, one or a list, by their whole name or its last part; the messages of a
    workflow's node have its id as their action. Empty keeps everything."""
    known_similarity: float = Field(default=0.95, ge=-1, le=1)
    """Cosine similarity from which on a message says nothing new."""
    threshold: float | None = Field(default=None, ge=0, le=4, json_schema_extra={"advanced": True})
    """MetaGPT's way to say `known_similarity`: a squared L2 distance d of unit vectors, a cosine of 1 - d/2."""
    short_term: int = Field(default=200, ge=1)
    """Newest messages of a role that are at hand, and that are taken back from the long-term memory at the start."""
    dedupe: Literal["id", "content"] = "id"
    """Identity of a message: its id, or with `content` also the same words of the same speaker."""
    ttl_days: float | None = Field(default=None, gt=0)
    """Another way to say `ttl`, in days; absent keeps a message until it is deleted."""
    max_content_length: int = Field(default=1000, ge=50)
    """Characters of a message that are shown to an agent; all of the text is kept, and found by words and meaning. A
    longer message is news unless its very words are known."""

    @model_validator(mode="after")
    def _say_it_once(self) -> Self:
        if self.threshold is not None and "known_similarity" in self.model_fields_set:
            raise ValueError("`threshold` and `known_similarity` say the same thing; give one of them")
        if self.ttl_days is not None and self.ttl is not None:
            raise ValueError("`ttl_days` and `ttl` say the same thing; give one of them")
        return self

    @property
    def known_from(self) -> float:
        """Cosine similarity from which on a message says nothing new, however it was configured."""
        return self.known_similarity if self.threshold is None else 1 - self.threshold / 2

    @property
    def lifetime(self) -> float | None:
        """Seconds that a message is kept, however it was configured; None for ever."""
        return self.ttl if self.ttl_days is None else self.ttl_days * _SECONDS_A_DAY

    def watches(self, action: str) -> bool:
        """Whether the messages of an action are kept for long."""
        return watches(self.watch, action)


def watches(watch: list[str], action: str) -> bool:
    """Whether an action is one of those named, by its whole name or its last part; none named means all."""
    return not watch or action in watch or action.rpartition(".")[2] in watch
