"""Configuration of the `mem0` store type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, JsonValue, SecretStr, model_validator

from devmem.config.base import KNOWN_HOME
from devmem.stores import EmbeddingConfig, ExpiryConfig

SERVICE: Final = "https://api.mem0.ai"
"""Address of mem0's own service."""


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
    outbox: Annotated[str, KNOWN_HOME] | None = "auto"
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

    @property
    def sends_to(self) -> tuple[str, ...]:
        """Address of the service; inside the process, the models and the database that `oss` names."""
        if self.mode == "platform":
            return (self.host or SERVICE,)
        parts = ((name, part) for name, part in self.oss.items() if isinstance(part, dict))
        return tuple(place for name, part in parts if (place := _place_of(name, part)) is not None)

    @model_validator(mode="before")
    @classmethod
    def _take_no_guard(cls, given: object) -> object:
        if isinstance(given, Mapping) and given.get("guard") is not None:
            raise ValueError(
                "guard: a mem0 store has none, because mem0 has no quarantine that a caught text could wait in, and "
                "writes texts of its own; have agents write to a store with a `memory_path` and a `guard:`"
            )
        return given

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


_ADDRESSES: Final = ("openai_base_url", "ollama_base_url", "base_url", "url", "host")
_LOCAL: Final = frozenset({"huggingface", "fastembed"})
"""Embedders of mem0 that work in this process."""


def _place_of(name: str, part: Mapping[str, JsonValue]) -> str | None:
    """Return where a part of mem0's configuration sends texts; None for one that stays in this process."""
    provider, config = part.get("provider"), part.get("config")
    settings = config if isinstance(config, dict) else {}
    address = next((settings[key] for key in _ADDRESSES if isinstance(settings.get(key), str)), None)
    if address is not None or name not in ("llm", "embedder") or provider in _LOCAL:
        return None if address is None else str(address)
    return f"mem0's {name} {provider}"
