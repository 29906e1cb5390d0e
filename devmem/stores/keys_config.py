"""Configuration of keys: names of facts, of which each has one value at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Self

from pydantic import Field, model_validator

from devmem.config import ChatConfig, ConfigModel

_SEARCHED: Final = 10_000
"""Characters of a text that patterns are searched for in."""


class KeyRule(ConfigModel):
    """Key of the texts that a pattern matches."""

    pattern: str
    """Regular expression (Python's), searched for in the text."""
    key: str = Field(min_length=1)
    """Name of the fact that the text states; `{name}` stands for what the group `(?P<name>...)` matched."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            groups = re.compile(self.pattern).groupindex
        except re.error as error:
            raise ValueError(f"`pattern` is no regular expression: {error}") from error
        try:
            self.key.format_map(dict.fromkeys(groups, "x"))
        except (KeyError, ValueError, IndexError) as error:
            named = ", ".join(groups) or "none"
            raise ValueError(
                f"`key` names a group that the pattern does not have ({error}); its groups: {named}"
            ) from error
        return self

    def key_of(self, text: str) -> str | None:
        """Return the key of a text; None where the pattern does not match, or the key would be blank."""
        found = re.search(self.pattern, text[:_SEARCHED])
        key = self.key.format_map({name: value or "" for name, value in found.groupdict().items()}) if found else ""
        return key.strip().casefold() or None


class KeysConfig(ConfigModel):
    """Keys of what nodes write; for store types whose items are known by nothing else."""

    keys: tuple[KeyRule, ...] = Field(default=(), json_schema_extra={"advanced": True})
    """Rules by which a text states a fact that has one value at a time: it takes the place of the item of the same key,
    user and agent, which stays in the history. The first rule that matches counts."""
    key_llm: ChatConfig | None = Field(
        default=None, title="Language model of keys", json_schema_extra={"advanced": True}
    )
    """Model that is asked for the key of a text that no rule matches; absent leaves such a text without one."""
    key_names: tuple[str, ...] = Field(default=(), json_schema_extra={"advanced": True})
    """The keys that the model chooses from, such as `user.diet`; none given lets it name them, and shows it those that
    it gave before."""

    @property
    def asks_for_keys(self) -> bool:
        """Whether a language model is asked."""
        return self.key_llm is not None and self.key_llm.provider != "extractive"


def key_by_rules(rules: Sequence[KeyRule], text: str) -> str | None:
    """Return the key of the first rule that matches a text; None where none does."""
    return next((key for rule in rules if (key := rule.key_of(text)) is not None), None)
