"""How what was recalled is put before the model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from devmem.config.base import ConfigModel


class MemoryOptions(ConfigModel):
    """The block of recalled items, for all agents or for one."""

    token_budget: int | None = Field(default=4000, gt=0)
    """Estimated tokens that the block of recalled items may take; null sets no limit."""
    language: Literal["en", "zh"] = "en"
    """Language of the block's header, marks and labels; what was said stays as it is."""
    dedupe: bool = Field(default=True, title="Leave out repeats")
    """Show an item that several stores returned only once."""
    origins: bool = Field(default=True, title="Mark origins", json_schema_extra={"advanced": True})
    """Mark items that came from a file, a tool, an import or another agent, as in `(tool search)`."""
    ranking: Literal["store", "devall"] = Field(default="store", json_schema_extra={"advanced": True})
    """Order of the items: each store's own, or DevAll's score of age, length and shared words."""

    def overridden_by(self, other: MemoryOptions | None) -> MemoryOptions:
        """Return these options with those that `other` sets explicitly in their place."""
        if other is None:
            return self
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})
