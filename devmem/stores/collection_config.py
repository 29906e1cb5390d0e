"""Configuration that stores with a collection have in common."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from devmem.collections import DEFAULT_HISTORY_DAYS
from devmem.config import ConfigModel, EmbeddingConfig, IndexConfig, RetrievalConfig

History: TypeAlias = Literal["keep", "none"] | Annotated[float, Field(gt=0)]
"""How long the versions of items are kept: for good, not at all, or for a number of days."""


class PlaceConfig(ConfigModel):
    """Where a store's items live; a store type adds its own fields."""

    keeps_versions: ClassVar[bool] = True
    keeps_states: ClassVar[bool] = False
    """Whether the store keeps more than items: in a file beside theirs, or in their database."""

    memory_path: str | None = None
    """Where the items live: a path such as `memory/store.db` (SQLite) or `memory/store.json` (DevAll's format), a
    database (`postgresql://host/database`), `auto` for a file of the session; absent keeps them for this process
    only."""
    durability: Literal["full", "normal"] = Field(default="full", json_schema_extra={"advanced": True})
    """`full` survives power loss; `normal` is faster and may lose the last writes then, but not when a process dies."""
    history: History = Field(default=DEFAULT_HISTORY_DAYS, json_schema_extra={"advanced": True})
    """How long the versions of items that were changed or deleted are kept: a number of days, `keep` for good, `none`
    not at all. What expires, or goes beyond a store's capacity, leaves no version."""

    @property
    def history_days(self) -> float | None:
        """Days for which versions are kept; None for good, 0 not at all."""
        if self.history == "keep":
            return None
        return 0.0 if self.history == "none" else self.history

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if "history" in self.model_fields_set and self.history != "none" and (self.memory_path or "").endswith(".json"):
            raise ValueError(
                f"a JSON file such as {self.memory_path} keeps no versions: leave `history` out, or use a path that "
                "ends with .db"
            )
        return self


class CollectionConfig(PlaceConfig):
    """Configuration of a store with a searchable collection; a store type adds its own fields."""

    embedding: EmbeddingConfig | None = None
    """The model that makes items findable by meaning; absent searches by their text alone."""
    index: IndexConfig = Field(default_factory=IndexConfig, json_schema_extra={"advanced": True})
    """How the nearest vectors are found in a large store."""
    retrieval: RetrievalConfig = Field(default_factory=RetrievalConfig, json_schema_extra={"advanced": True})
    """The signals that rank what is found."""

    @model_validator(mode="after")
    def _need_an_embedding(self) -> Self:
        if self.retrieval.tokens is not None and self.embedding is None:
            raise ValueError("`retrieval: {tokens: ...}` needs an `embedding:` block beside it")
        return self
