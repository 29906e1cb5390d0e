"""Configuration of how long, and how many, items are kept."""

from __future__ import annotations

from pydantic import Field

from devmem.config import ConfigModel, Duration


class ExpiryConfig(ConfigModel):
    """When the items of a store expire; for store types that take writes."""

    ttl: Duration | None = Field(default=None, json_schema_extra={"advanced": True})
    """How long an item is kept that has no `expires_at` of its own: seconds, or text such as `30d`, `12h`, `1h 30m`. It
    counts from the time of storing; an attachment's `ttl` goes before it. Absent keeps items."""

    @property
    def lifetime(self) -> float | None:
        """Seconds after which an item expires; None for never."""
        return self.ttl


class RetentionConfig(ExpiryConfig):
    """Limits of a store; for store types whose items live in a collection."""

    retention: Duration | None = Field(default=None, json_schema_extra={"advanced": True})
    """Greatest age of an item since it was stored, whatever its own expiry is: seconds, or text such as `90d`. Items
    that were stored before it was set are deleted by the next write, or at the end of the next run. Absent sets no
    limit."""
    max_items: int | None = Field(default=None, ge=1)
    """Maximum number of items; the oldest are deleted first. Absent keeps everything."""
