"""Configuration of the `simple` store type."""

from __future__ import annotations

import re
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from devmem.stores import CollectionConfig, ConfigModel, RetentionConfig

_SEARCHED: Final = 10_000
"""Characters of an exchange that patterns are searched for in."""


class KeyRule(ConfigModel):
    """Key of the exchanges whose text a pattern matches."""

    pattern: str
    """Regular expression (Python's), searched for in the text of an exchange."""
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


class SimpleConfig(RetentionConfig, CollectionConfig):
    """Configuration of a `simple` store."""

    max_content_length: int = Field(default=500, ge=50)
    """Maximum length in characters of the summary that agents are shown; all of the text is kept, and found by words
    and meaning."""
    min_content_length: int = Field(default=0, ge=0)
    """Least number of characters, of the input and the output together; a shorter exchange is skipped, and the outcome
    says so."""
    keys: tuple[KeyRule, ...] = Field(default=(), json_schema_extra={"advanced": True})
    """Rules by which an exchange states a fact that has one value at a time: it takes the place of the exchange of the
    same key, user and agent, which stays in the history. The first rule that matches counts."""
    ranking: Literal["hybrid", "devall"] = Field(default="hybrid", json_schema_extra={"advanced": True})
    """`hybrid` joins meaning and words; `devall` scores as DevAll does: 0.7 cosine + 0.3 text overlap."""

    @model_validator(mode="after")
    def _refuse_two_orders(self) -> Self:
        if self.ranking == "devall" and self.retrieval.reranker.reads_hits:
            raise ValueError(
                "`ranking: devall` is DevAll's own order, which no reranker changes: leave it out, or the reranker "
                f"{self.retrieval.reranker.type!r}"
            )
        return self
