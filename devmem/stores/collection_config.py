"""Configuration that stores with a collection have in common."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from devmem.config import ConfigModel, EmbeddingConfig, IndexConfig, RetrievalConfig


class PlaceConfig(ConfigModel):
    """Where a store's items live; a store type adds its own fields."""

    memory_path: str | None = None
    """Where the items live: a path such as `memory/store.db` (SQLite) or `memory/store.json` (DevAll's format), `auto`
    for a file of the session; absent keeps them for this process only."""
    durability: Literal["full", "normal"] = Field(default="full", json_schema_extra={"advanced": True})
    """`full` survives power loss; `normal` is faster and may lose the last writes then, but not when a process dies."""


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
