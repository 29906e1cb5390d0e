"""The `guard:` block of a store: which writes are put into quarantine."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, JsonValue, SecretStr, model_validator

from devmem.config.base import ConfigModel, Duration
from devmem.model.items import SourceKind

_DAY: Final = 86_400.0
_FOREIGN: Final = (SourceKind.TOOL, SourceKind.FILE, SourceKind.IMPORT, SourceKind.NODE)


class GuardCheckConfig(ConfigModel):
    """One check of the texts that are written."""

    type: str = Field(default="orders", min_length=1)
    """`orders` finds text that gives orders to a model or asks to be remembered, by rules; `llm` asks a chat model; a
    plugin's name has the plugin read it."""
    sources: tuple[SourceKind, ...] = _FOREIGN
    """Origins whose texts are read: `node` (an agent), `tool`, `file`, `import`, `summary`, `user`."""
    on_error: Literal["quarantine", "admit"] = "quarantine"
    """Whether a text that the check could not read is admitted, as when a service does not answer."""
    provider: str = "openai"
    """Chat provider, for `llm`."""
    model: str | None = None
    """Name of the chat model, for `llm`."""
    api_key: SecretStr | None = None
    """Key of the chat service, for `llm`; None takes the environment's."""
    base_url: str | None = None
    """Address of an OpenAI-compatible service, for `llm`."""
    timeout: float = Field(default=10.0, gt=0)
    """Seconds that a chat service may take for one text, for `llm`."""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """Further settings of a plugin; for `llm`, parameters of its requests."""

    @model_validator(mode="after")
    def _ask_for_a_model(self) -> Self:
        if self.type == "llm" and not self.model:
            raise ValueError("`type: llm` needs `model`, the name of a chat model")
        return self


class GuardConfig(ConfigModel):
    """Rules by which a store puts writes into quarantine; without this block it takes every write."""

    sources: tuple[SourceKind, ...] | None = None
    """Origins that may write: `user`, `node` (an agent), `tool`, `file`, `import`, `summary`. Absent admits all."""
    min_trust: float = Field(default=0.0, ge=0, le=1)
    """Least trust of what is written."""
    max_length: int | None = Field(default=None, ge=1)
    """Maximum number of characters of an item. Absent sets no limit."""
    per_minute: int | None = Field(default=None, ge=1)
    """Maximum number of writes of one agent, tool or user within a minute. It is counted in each process."""
    per_run: int | None = Field(default=None, ge=1)
    """Maximum number of writes of one agent, tool or user within a run. It is counted in each process."""
    duplicates: bool = False
    """Whether a text is caught that is in its scope already but for spacing, case and punctuation. Equal texts are
    stored once in any case."""
    empty_talk: bool = False
    """Whether texts are caught that say nothing but "ok", "thanks" or "好的"."""
    # Constructed, so that importing this builds no validator.
    checks: tuple[GuardCheckConfig, ...] = (GuardCheckConfig.model_construct(),)
    """Checks of the text, in their order; the first one that finds something decides. An empty list reads no text."""
    keep: Duration = 30 * _DAY
    """How long an item stays in quarantine before it is deleted: seconds, or text such as `30d`."""
