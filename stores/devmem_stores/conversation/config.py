"""Configuration of the `conversation` store type."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, field_validator

from devmem.config.base import KNOWN_HOME
from devmem.stores import (
    ChatConfig,
    CollectionConfig,
    ConfigModel,
    FactKeepingConfig,
    IndexConfig,
    RetentionConfig,
    ViewConfig,
)

INDEXED: Final = ("source", "target", "type")
"""Metadata keys of records by which views and deletions select."""


class SummaryConfig(ConfigModel):
    """Summaries of older records, which `compress` makes."""

    keep: int = Field(default=20, ge=0)
    """Number of the latest records of a view that are not summarized."""
    words: int = Field(default=200, ge=20)
    """Maximum number of words of a summary."""
    llm: ChatConfig | None = Field(default=None, title="Language model")
    """Model that summarizes; without one, summaries are selected sentences."""
    prompt: str | None = Field(default=None, min_length=1, json_schema_extra={"advanced": True})
    """Instruction for the language model in place of the built-in one; `{words}` in it becomes the number of words."""


class ConversationConfig(FactKeepingConfig, RetentionConfig, CollectionConfig):
    """Configuration of a `conversation` store."""

    keeps_records: ClassVar[bool] = True
    """Whether a workflow's `conversation` block may name stores of this type."""

    idle_models: ClassVar[tuple[str, ...]] = ("summary.llm",)
    """`devmem consolidate --summarize` summarizes, no run does."""

    memory_path: Annotated[str, KNOWN_HOME] | None = "auto"
    """Where the records live: a path (SQLite, or DevAll's format when it ends in `.json`), `auto` for a file of the
    session, null for this process only."""
    view: ViewConfig = Field(default_factory=ViewConfig)
    """The part that agents read which attach the store without a view of their own."""
    summary: SummaryConfig = Field(default_factory=SummaryConfig)
    """Summaries of older records."""
    index: IndexConfig = Field(
        default_factory=lambda: IndexConfig(metadata=INDEXED), json_schema_extra={"advanced": True}
    )
    """Indexes; the participants and kinds of records always have one."""
    language: Literal["en", "zh"] = "en"
    """Language of the sentences that say who told whom what, and of the summaries."""
    summary_length: int = Field(default=1000, ge=50)
    """Maximum number of characters that are shown of a record; all of it is kept."""

    @field_validator("index")
    @classmethod
    def _index_participants(cls, index: IndexConfig) -> IndexConfig:
        return index.model_copy(update={"metadata": tuple(dict.fromkeys((*INDEXED, *index.metadata)))})
