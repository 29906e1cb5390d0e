"""Configuration of the `conversation` store type."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from devmem.recording import ParticipantType
from devmem.stores import CollectionConfig, ConfigModel


class ViewConfig(ConfigModel):
    """The part of the global memory that an attached agent reads."""

    agent: str | None = None
    """Name of the agent whose interactions are seen; absent sees those of all agents."""
    memory_types: list[ParticipantType] = Field(default=[ParticipantType.USER, ParticipantType.AGENT])
    """Counterparts whose exchanges with the agent are seen; add `tool`, `llm` or `knowledge` for calls of those."""
    order: Literal["chronological", "search"] = "chronological"
    """The latest interactions in their order, or those that fit the query best."""
    skip_current_trace: bool = True
    """Leave out the trace in progress, which the agent knows from its input."""


class ConversationConfig(CollectionConfig):
    """Configuration of a `conversation` store."""

    keeps_records: ClassVar[bool] = True
    """Whether a workflow's `conversation` block may name stores of this type."""

    memory_path: str | None = "auto"
    """Where the records live: a path (SQLite, or DevAll's format when it ends in `.json`), `auto` for a file of the
    session, null for this process only."""
    view: ViewConfig = Field(default_factory=ViewConfig)
    """The part that agents read which attach the store."""
    language: Literal["en", "zh"] = "en"
    """Language of the sentences that say who told whom what."""
    summary_length: int = Field(default=1000, ge=50)
    """Maximum number of characters that are shown of a record; all of it is kept."""
