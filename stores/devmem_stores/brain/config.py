"""Configuration of the `brain` store type."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, SecretStr, field_validator

from devmem.stores import ChatConfig, CollectionConfig, ConfigModel, ExpiryConfig


class RedisConfig(ConfigModel):
    """A Redis server that shares the state of the conversations between processes and machines."""

    url: SecretStr
    """Address, as in `redis://127.0.0.1:6379/0`; `rediss://` encrypts."""
    password: SecretStr | None = None
    """Password, when it is not part of the address."""
    ttl: float = Field(default=1800.0, gt=0)
    """Seconds until a conversation expires in Redis after its last change; it stays in the file."""
    prefix: str | None = None
    """First part of the keys `prefix:user:chat`; absent takes the store's name."""
    timeout: float = Field(default=2.0, gt=0, json_schema_extra={"advanced": True})
    """Seconds to wait for an answer of Redis."""
    retry_after: float = Field(default=5.0, gt=0, json_schema_extra={"advanced": True})
    """First pause in seconds after Redis failed; it doubles with each further failure, up to 60."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr) -> SecretStr:
        if not url.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("expected an address that begins with redis://, rediss:// or unix://")
        return url


class BrainConfig(ExpiryConfig, CollectionConfig):
    """Configuration of a `brain` store."""

    keeps_versions: ClassVar[bool] = False
    """The states of its conversations are kept beside its items, without versions."""

    keeps_states: ClassVar[bool] = True

    memory_path: str | None = "auto"
    """Where the messages live: a path (SQLite, or DevAll's format when it ends in `.json`), a database
    (`postgresql://host/database`), `auto` for a file of the session, null for this process only. The conversations'
    state is beside it, in a file that ends in `.brain`, or in the database."""
    redis: RedisConfig | None = None
    """Redis in front of the file or the database; absent keeps the state there alone."""
    llm: ChatConfig | None = Field(default=None, title="Language model")
    """Model that summarizes, rewrites and compares; without one, summaries are selected sentences and nothing is
    rewritten."""
    language: Literal["auto", "en", "zh"] = "auto"
    """Language of the prompts; `auto` detects that of the text."""
    max_messages: int = Field(default=10, ge=2)
    """Number of messages before the latest ones that become one summary."""
    max_tokens: int = Field(default=4000, ge=50)
    """Maximum number of estimated tokens of the history; beyond it older messages are summarized sooner."""
    keep_messages: int = Field(default=2, ge=1)
    """Number of latest messages that are never summarized."""
    summaries_per_level: int = Field(default=10, ge=2)
    """Number of summaries of one level that become one of the next."""
    summary_words: int = Field(default=200, ge=20)
    """Maximum number of words of a summary."""
    summary_prompt: str | None = Field(default=None, min_length=1, json_schema_extra={"advanced": True})
    """Instruction for the language model in place of the built-in one; `{words}` in it becomes the number of words."""
    window: int = Field(default=1480, ge=100, json_schema_extra={"advanced": True})
    """Maximum number of characters that the model summarizes at once; a longer text is split into windows."""
    max_content_length: int = Field(default=500, ge=50)
    """Maximum number of characters of an item's summary; the whole text is kept and searched."""

    @property
    def llm_model(self) -> ChatConfig | None:
        """Configuration of the language model; None where the store does without one."""
        return None if self.llm is None or self.llm.provider == "extractive" else self.llm
