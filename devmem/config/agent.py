"""Settings of an agent node: its model, its prompts and its memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import AliasChoices, ConfigDict, Field, SecretStr, model_validator

from devmem.config.attachment import Attachment
from devmem.config.base import ConfigModel
from devmem.config.options import MemoryOptions

ONLY_IN_CONFIG: Final = ("memories", "memory_options", "plan", "critique")
"""Keys of an agent that no system reads elsewhere in a node."""


class AgentConfig(ConfigModel):
    """An agent's settings; keys that other systems read are left alone."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    provider: str = Field(default="extractive", min_length=1)
    """Who answers: `extractive` needs no model and quotes what was recalled, `openai` is any service that speaks its
    protocol."""
    model: str | None = Field(default=None, validation_alias=AliasChoices("model", "name"))
    """The provider's name of the model."""
    agent: str | None = Field(default=None, min_length=1, json_schema_extra={"advanced": True})
    """Name by which stores know the agent; absent takes the node's id. Nodes of the same name are one agent."""
    role: str | None = Field(default=None, validation_alias=AliasChoices("role", "prompt_template"))
    """System prompt: who the agent is and what it does."""
    base_url: str | None = Field(default=None, title="Base URL")
    """Address of the service."""
    api_key: SecretStr | None = Field(default=None, title="API Key")
    """Key for the service."""
    params: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Details of a call, handed to the provider as they are: `temperature`, `max_tokens` and so on."""
    memories: tuple[Attachment, ...] = ()
    """Stores that this agent reads or writes."""
    memory_options: MemoryOptions | None = None
    """Memory options of this agent alone; keys that are not set are taken from the workflow's `memory_options`."""
    plan: str | None = None
    """Prompt of a planning call before the answer; without it the stage `plan` does not happen."""
    critique: str | None = None
    """Prompt of a reviewing call after the answer; without it the stage `critique` does not happen."""

    @model_validator(mode="before")
    @classmethod
    def _take_over_reflection(cls, data: object) -> object:
        """Read DevAll's `thinking: {type: reflection, config: {reflection_prompt: ...}}` as `critique`."""
        prompt = _reflection_prompt(data)
        if prompt is None or not isinstance(data, Mapping) or data.get("critique") is not None:
            return data
        return {**data, "critique": prompt}


def _reflection_prompt(data: object) -> str | None:
    thinking = data.get("thinking") if isinstance(data, Mapping) else None
    if not isinstance(thinking, Mapping) or thinking.get("type") != "reflection":
        return None
    config = thinking.get("config")
    prompt = config.get("reflection_prompt") if isinstance(config, Mapping) else None
    return prompt if isinstance(prompt, str) else None
