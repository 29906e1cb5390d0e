"""Configuration of the `role_zero` store type."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr

from devmem.stores import CollectionConfig, ConfigModel, RetentionConfig


class RankerConfig(ConfigModel):
    """The chat model that puts the related messages in order."""

    provider: str = Field(default="openai", min_length=1)
    """Provider of the model: `openai` is any service that speaks its protocol."""
    model: str | None = None
    """The provider's name of the model."""
    api_key: SecretStr | None = None
    """Key for the service; None takes the environment's OPENAI_API_KEY."""
    base_url: str | None = Field(default=None, title="Base URL")
    """Address of the service."""
    params: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Details of a call, handed to the provider as they are: `temperature`, `max_tokens` and so on."""
    candidates: int = Field(default=20, ge=1)
    """Number of best related messages that the model is shown, at least `similarity_top_k`."""


class RoleZeroConfig(RetentionConfig, CollectionConfig):
    """Configuration of a `role_zero` store."""

    memory_path: str | None = "auto"
    """Where the messages live: a path such as `memory/roles.db`, `auto` for a file of the session, null for this
    process only."""
    memory_k: int = Field(default=200, ge=1)
    """Messages in the short-term window of each memory; what is older is long-term."""
    similarity_top_k: int = Field(default=5, ge=1)
    """Maximum number of related messages that are recalled."""
    similarity_threshold: float = Field(default=-1.0, ge=-1.0, le=1.0)
    """Least cosine similarity of a related message."""
    recall: Literal["requirement", "always", "never"] = "requirement"
    """When `get(k)` looks for related messages: `requirement` as MetaGPT does, when `k` is not 0, the last message is
    what a user or a team leader requires, and there are more than `memory_k` messages; `always` when there is
    something older than what is given anyway."""
    team_leaders: tuple[str, ...] = ("Mike",)
    """Senders whose messages in the user's role count as requirements whatever caused them."""
    query: Literal["last_message", "last_turns"] = "last_message"
    """Text that related messages are searched by: the last message, or the last `query_turns` together."""
    query_turns: int = Field(default=3, ge=1)
    """Number of messages that `last_turns` joins."""
    min_importance: float = Field(default=0.0, ge=0.0, le=1.0)
    """Minimum importance of a related message that is recalled; less important ones are kept all the same."""
    across_sessions: bool = False
    """Related messages may come from other sessions of the same role and user."""
    shared: bool = False
    """Nodes recall what other agents wrote too, not only their own and what belongs to none."""
    max_content_length: int = Field(default=1000, ge=50)
    """Maximum number of characters of a message that a search shows; the whole text is kept and searched."""
    llm_ranker: RankerConfig | None = None
    """A chat model that picks the related messages among the candidates; absent leaves the search's own order."""
    outbox: str | None = Field(default="auto", json_schema_extra={"advanced": True})
    """Where messages wait when the file of `memory_path` cannot be written: a path, `auto` for a file of the session;
    null has the write fail instead."""
