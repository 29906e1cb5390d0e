"""Configuration of the `brain` store type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import quote, unquote

from pydantic import Field, SecretStr, field_validator, model_validator

from devmem import Scope
from devmem.config.base import KNOWN_HOME
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

    @model_validator(mode="before")
    @classmethod
    def _take_host_and_port(cls, given: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        """Read MetaGPT's `host`, `port` and `db` as an address."""
        if not isinstance(given, dict) or "host" not in given or "url" in given:
            return given
        others = {key: value for key, value in given.items() if key not in ("host", "port", "db")}
        return {**others, "url": f"redis://{given['host']}:{given.get('port', 6379)}/{given.get('db', 0)}"}

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

    memory_path: Annotated[str, KNOWN_HOME] | None = "auto"
    """Where the messages live: a path (SQLite, or DevAll's format when it ends in `.json`), a database
    (`postgresql://host/database`), `auto` for a file of the session, null for this process only. The conversations'
    states are kept there too; of a `.json` file beside it, in `FILE.json.states`."""
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
    def sends_to(self) -> tuple[str, ...]:
        """Addresses of the database and of Redis."""
        return (*super().sends_to, *(() if self.redis is None else (self.redis.url.get_secret_value(),)))

    @property
    def llm_model(self) -> ChatConfig | None:
        """Configuration of the language model; None where the store does without one."""
        return None if self.llm is None or self.llm.provider == "extractive" else self.llm


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatKey:
    """One conversation of one user; empty parts where it is unscoped."""

    user: str = ""
    chat: str = ""

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the conversation of a scope: its conversation, or else its session."""
        return cls(user=scope.user or "", chat=scope.conversation or scope.session or "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key that `str` wrote."""
        user, _, chat = text.partition(":")
        return cls(user=unquote(user), chat=unquote(chat))

    def __str__(self) -> str:
        return f"{escaped(self.user)}:{escaped(self.chat)}"

    def scope(self) -> Scope:
        """Return the scope of its messages."""
        return Scope(user=self.user or None, conversation=self.chat or None)

    def item_id(self, message_id: str) -> str:
        """Return the id of a message's item: chats may number their messages alike."""
        if self.user or self.chat:
            return f"{self}:{escaped(message_id)}"
        # Without a colon it names no message of another chat; a percent sign would make two ids one.
        return escaped(message_id) if ":" in message_id or "%" in message_id else message_id


def escaped(part: str) -> str:
    """Escape what separates the parts of a key, and everything else that is not plain ASCII."""
    return quote(part, safe="")
