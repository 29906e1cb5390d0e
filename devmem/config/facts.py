"""The `facts:` block of a store: which statements a chat model extracts from its turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from devmem.config.agent import ChatConfig
from devmem.config.base import ConfigModel
from devmem.model.items import SourceKind

PROMPT_TOKENS: Final = 450
"""Tokens of the instructions to the model, with subjects and attributes in use, by which a plan counts."""


class FactsConfig(ConfigModel):
    """Facts that are extracted from turns, in the background, and kept beside them; each rests on a quote."""

    llm: ChatConfig = Field(title="Language model of facts")
    """Model that is asked for the facts of each turn, once a turn."""
    sources: tuple[SourceKind, ...] = (SourceKind.USER, SourceKind.NODE)
    """Origins of the turns that are read: `user`, `node` (an agent), `tool`, `file`, `import`, `summary`."""
    per_turn: int = Field(default=8, ge=1, le=100)
    """Maximum number of facts of one turn; the others are dropped and counted."""
    max_length: int = Field(default=8_000, ge=100)
    """Maximum number of characters of a turn that the model reads, the first ones."""

    @model_validator(mode="after")
    def _ask_for_a_model(self) -> Self:
        if self.llm.provider == "extractive":
            raise ValueError("`llm` needs a chat model; `provider: extractive` extracts no facts")
        if not self.llm.model:
            raise ValueError("`llm` needs `model`, the name of a chat model")
        return self


class FactKeepingConfig(ConfigModel):
    """Facts beside turns; for store types that keep conversations."""

    model_prompts: ClassVar[Mapping[str, int]] = {"facts.llm": PROMPT_TOKENS}

    facts: FactsConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """Facts that a chat model extracts from what is said, each with the quote that it rests on; absent extracts
    none."""
