"""Which chat model a store asks, as the `llm:` block of a store says it."""

from __future__ import annotations

from pydantic import Field, JsonValue, SecretStr

from devmem.config.base import ConfigModel


class ChatConfig(ConfigModel):
    """A chat model that a store uses for its own work, such as summaries."""

    provider: str = Field(default="openai", min_length=1)
    """`openai` is any service that speaks its protocol, under any name with its `base_url`; `extractive` needs no
    model: the store's own methods do the work."""
    model: str | None = None
    """The provider's name of the model; all but `extractive` need it."""
    api_key: SecretStr | None = Field(default=None, title="API Key")
    """Key for the service; absent takes the environment's OPENAI_API_KEY."""
    base_url: str | None = Field(default=None, title="Base URL")
    """Address of the service; absent takes the environment's OPENAI_BASE_URL, then OpenAI's own."""
    params: dict[str, JsonValue] = Field(default_factory=dict, repr=False, json_schema_extra={"advanced": True})
    """Details of a call, handed to the service as they are: `temperature`, `max_tokens` and so on."""
