"""How a store's items are found and ranked, as the `retrieval:` block of a store says it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, SecretStr

from devmem.config.base import ConfigModel


class RerankerConfig(ConfigModel):
    """What looks at the best candidates again before they are given."""

    type: str = "late_interaction"
    """`late_interaction` compares token by token, with what the embedding model made already; `none` does without;
    `cross_encoder` reads question and text together; `llm` asks a chat model; or a plugin's name."""
    depth: int = Field(default=20, ge=1)
    """Candidates that a `cross_encoder`, an `llm` or a plugin reads."""
    model_path: Path | None = None
    """Folder with the files of a sentence-transformers cross encoder, for `cross_encoder`."""
    provider: str = "openai"
    """Chat provider, for `llm`."""
    model: str | None = None
    """Name of the chat model, for `llm`."""
    api_key: SecretStr | None = None
    """Key of the chat service, for `llm`; None takes the environment's."""
    base_url: str | None = None
    """Address of an OpenAI-compatible service, for `llm`."""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """What else a plugin wants to know; for `llm`, parameters of its requests."""


class RetrievalConfig(ConfigModel):
    """What counts when a store is searched; the defaults are those that were measured."""

    reranker: RerankerConfig = Field(default_factory=RerankerConfig)
    """The second look at the best candidates."""
    context: bool = True
    """Let the turns before and after, the conversation, and who speaks lend their score."""
    time: Literal["boost", "narrow", "off"] = "boost"
    """What a time in the question does ("last week", "in May 2023", "上周"): items of that time gain, or nothing else
    is found, or nothing."""
    recency: float = Field(default=0.02, ge=0)
    """What an item of right now gains over an old one; a good match scores about 0.3 more than a bad one."""
    half_life_days: float = Field(default=30, gt=0)
    """Days after which half of that gain is left."""
    importance: float = Field(default=0, ge=0)
    """What an item with the metadata `importance: 1` gains over one with 0."""
    diversity: float = Field(default=0, ge=0, le=1)
    """0 gives the best items, however alike; towards 1 each differs more from those before it."""
    collapse: bool = True
    """Give of items that say the same on the same day only the best."""
    candidates: int = Field(default=200, ge=10, json_schema_extra={"advanced": True})
    """So many of the best by words, and by meaning, are looked at."""
