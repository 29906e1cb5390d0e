"""Configuration of the `mem0` store type."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, JsonValue, SecretStr, model_validator

from devmem.stores import EmbeddingConfig, ExpiryConfig


class Mem0Config(ExpiryConfig):
    """Configuration of a `mem0` store."""

    mode: Literal["platform", "oss"] = "platform"
    """`platform` talks to mem0's service, or to a server that speaks its API; `oss` runs mem0 inside this process."""
    api_key: SecretStr | None = None
    """Key of the mem0 project; required with `mode: platform`."""
    user_id: str | None = None
    """Whose memories are read and written. With `agent_id` as well, a search finds what belongs to either of them and
    a write belongs to both."""
    agent_id: str | None = None
    """Which agent's memories are read and written; without any id the node's role stands for it."""
    run_id: str | None = None
    """Only memories of this run or session are read and written."""
    org_id: str | None = Field(default=None, json_schema_extra={"advanced": True})
    """The organisation that the key must belong to: mem0 2.x finds it by the key, and another one is refused."""
    project_id: str | None = Field(default=None, json_schema_extra={"advanced": True})
    """The project that the key must belong to: mem0 2.x finds it by the key, and another one is refused."""
    host: str | None = None
    """Address of a server that speaks the platform's API; absent means mem0's own service."""
    infer: bool = True
    """Have a language model extract what is worth keeping; false stores what the user said as it is."""
    outbox: str | None = "auto"
    """File that keeps writes until mem0 has taken them: a path, `auto` for a file of the session; null sends directly,
    and a write that fails is the caller's to repeat."""
    timeout: float = Field(default=30.0, gt=0, json_schema_extra={"advanced": True})
    """Seconds that one request may take, its answer included (`mode: platform`)."""
    retries: int = Field(default=2, ge=0, le=10, json_schema_extra={"advanced": True})
    """Maximum number of retries after 429, 5xx or a broken answer, waiting longer each time."""
    telemetry: bool = Field(default=False, json_schema_extra={"advanced": True})
    """Let mem0 report its use to its makers."""
    oss: dict[str, JsonValue] = Field(default_factory=dict, repr=False)
    """mem0's own configuration for `mode: oss`: `vector_store`, `llm`, `embedder` and so on. Without `vector_store` the
    memories live in a qdrant folder of the session."""
    embedding: EmbeddingConfig | None = None
    """The model that makes the vectors in `mode: oss`; absent takes `oss.embedder`, or else `minilm`."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.mode == "platform":
            if self.api_key is None or not self.api_key.get_secret_value().strip():
                raise ValueError("api_key: expected a key, because `mode` is `platform`; `mode: oss` needs none")
            if self.oss or self.embedding:
                raise ValueError("`oss` and `embedding` belong to `mode: oss`; the platform has its own models")
            return self
        if self.infer and "llm" not in self.oss:
            raise ValueError("oss.llm: `infer: true` needs a language model; give one, or set `infer: false`")
        if self.embedding and "embedder" in self.oss:
            raise ValueError("give either `embedding` or `oss.embedder`, not both")
        misplaced = [name for name in ("api_key", "host", "org_id", "project_id") if getattr(self, name) is not None]
        if misplaced:
            raise ValueError(f"{', '.join(misplaced)}: only `mode: platform` uses it; take it out")
        return self
