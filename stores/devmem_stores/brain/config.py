"""What a `brain` store can be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from devmem.stores import ChatConfig, CollectionConfig, ConfigModel


class RedisConfig(ConfigModel):
    """A Redis server that shares the state of the conversations between processes and machines."""

    url: SecretStr
    """Address, as in `redis://127.0.0.1:6379/0`; `rediss://` encrypts."""
    password: SecretStr | None = None
    """Password, when it is not part of the address."""
    ttl: float = Field(default=1800.0, gt=0)
    """Seconds that a conversation stays in Redis after its last change; it stays in the file."""
    prefix: str | None = None
    """First part of the keys `prefix:user:chat`; absent takes the store's name."""
    timeout: float = Field(default=2.0, gt=0, json_schema_extra={"advanced": True})
    """Seconds that Redis may take to answer."""
    retry_after: float = Field(default=5.0, gt=0, json_schema_extra={"advanced": True})
    """Seconds that Redis is left in peace after it failed; twice as long each time that it fails again, up to 60."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr) -> SecretStr:
        if not url.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("expected an address that begins with redis://, rediss:// or unix://")
        return url


class BrainConfig(CollectionConfig):
    """Configuration of a `brain` store."""

    memory_path: str | None = "auto"
    """Where the messages live: a path (SQLite, or DevAll's format when it ends in `.json`), `auto` for a file of the
    session, null for this process only. The conversations' state is beside it, in a file that ends in `.brain`."""
    redis: RedisConfig | None = None
    """Redis in front of the file; absent keeps the state in the file alone."""
    llm: ChatConfig | None = Field(default=None, title="Language model")
    """Who summarizes, rewrites and compares; absent summarizes by choosing sentences, and rewrites nothing."""
    language: Literal["auto", "en", "zh"] = "auto"
    """Language of the prompts; `auto` goes by the text."""
    max_messages: int = Field(default=10, ge=2)
    """So many messages before the latest ones become one summary."""
    max_tokens: int = Field(default=4000, ge=50)
    """Estimated tokens of the history beyond which all but its latest messages become summaries sooner."""
    keep_messages: int = Field(default=2, ge=1)
    """Latest messages that are never summarized."""
    summaries_per_level: int = Field(default=10, ge=2)
    """So many summaries of one level become one of the next."""
    summary_words: int = Field(default=200, ge=20)
    """Words of one summary."""
    window: int = Field(default=1480, ge=100, json_schema_extra={"advanced": True})
    """Characters that the model summarizes at once; a longer text goes through in overlapping windows."""
    max_content_length: int = Field(default=500, ge=50)
    """Characters of an item's summary that is shown; all of the text is kept, and found by words and meaning."""

    @property
    def llm_model(self) -> ChatConfig | None:
        """The language model; None when the store is to do without one."""
        return None if self.llm is None or self.llm.provider == "extractive" else self.llm
