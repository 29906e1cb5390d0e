"""Configuration that stores with a collection share, and the `facts:` block of those that keep conversations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from devmem.config.agent import ChatConfig
from devmem.config.base import KNOWN_HOME, ConfigModel, Duration
from devmem.config.store import EmbeddingConfig, EncryptionConfig, GuardConfig, IndexConfig, RetrievalConfig
from devmem.model.items import SourceKind
from devmem.storage.opening import file_of
from devmem.storage.protocol import DEFAULT_HISTORY_DAYS

HistoryDays: TypeAlias = Literal["keep", "none"] | Annotated[float, Field(gt=0)]
"""How long the versions of items are kept: permanently, not at all, or for a number of days."""


class PlaceConfig(ConfigModel):
    """Where a store's items live; a store type adds its own fields."""

    keeps_versions: ClassVar[bool] = True
    keeps_states: ClassVar[bool] = False
    """Whether the store keeps more than items: in a file beside theirs, or in their database."""

    memory_path: Annotated[str, KNOWN_HOME] | None = None
    """Where the items live: a path such as `memory/store.db` (SQLite) or `memory/store.json` (DevAll's format), a
    database (`postgresql://host/database`), `auto` for a file of the session; absent keeps them for this process
    only."""
    durability: Literal["full", "normal"] = Field(default="full", json_schema_extra={"advanced": True})
    """`full` survives power loss; `normal` is faster and may lose the last writes then, but not when a process dies."""
    history: HistoryDays = Field(default=DEFAULT_HISTORY_DAYS, json_schema_extra={"advanced": True})
    """How long the versions of items that were changed or deleted are kept: a number of days, `keep` permanently,
    `none` not at all. What expires, or goes beyond a store's capacity, leaves no version."""
    guard: GuardConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """Which writes are put into quarantine, where no search finds them until somebody approves them; absent takes every
    write."""
    tombstones: bool = Field(default=False, json_schema_extra={"advanced": True})
    """Whether all that is forgotten leaves a tombstone: keyed hashes by which the store refuses it when it comes back.
    Absent leaves it to the call (`erase(..., tombstone=True)`, `devmem forget --tombstone`)."""

    encryption: EncryptionConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """Encryption of the store's files, and of the files of the workflow's sessions: the other stores of the workflow
    that keep files need the same block. Absent writes plain files."""

    @property
    def sends_to(self) -> tuple[str, ...]:
        """Address of the database, as written, where the items do not live in a file."""
        return () if self.memory_path is None or file_of(self.memory_path) is not None else (self.memory_path,)

    @property
    def history_days(self) -> float | None:
        """Days for which versions are kept; None permanently, 0 not at all."""
        if self.history == "keep":
            return None
        return 0.0 if self.history == "none" else self.history

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        is_json, file = (self.memory_path or "").endswith(".json"), f"a JSON file such as {self.memory_path}"
        if is_json and self.tombstones:
            raise ValueError(f"{file} keeps no tombstones: use a path that ends with .db")
        if is_json and "history" in self.model_fields_set and self.history != "none":
            raise ValueError(f"{file} keeps no versions: leave `history` out, or use a path that ends with .db")
        if self.encryption is not None and self.sends_to:
            raise ValueError(
                "`encryption` is for files: a database is encrypted by its server, or by the disk that it is on"
            )
        if self.encryption is not None and is_json:
            raise ValueError(f"{file} is not encrypted: use a path that ends with .db")
        return self


class ArchiveConfig(ConfigModel):
    """Which items a consolidation archives: they leave the index, are kept, and are found with `--archived`."""

    after: Duration = 180 * 86_400.0
    """Time since an item was stored after which it is archived if no agent was ever shown it, such as `180d`. What
    agents are shown is known from the workflow's `record_recalls`, as far back as its `retention` goes; without it, age
    and trust decide alone."""
    max_trust: float = Field(default=0.5, gt=0, le=1)
    """Trust up to which items are archived: that of what tools return is 0.4, of files and imports 0.6, of agents'
    output 0.8, of users' words 1."""


class ConsolidateConfig(ConfigModel):
    """When a store is consolidated without being asked: its near-duplicates are merged in one run."""

    every: Duration = 86_400.0
    """Least time between two consolidations: seconds, or text such as `12h`. One takes place when a workflow's stores
    are closed, as at the end of `devmem run`."""
    ignore: tuple[str, ...] = ()
    """Metadata keys whose values may differ between near-duplicates, such as `line`."""
    digest_after: Duration | None = None
    """Time since its last turn after which a conversation gets a digest, such as `30d`. Absent makes no digests."""
    archive: ArchiveConfig | None = None
    """Archiving of old items of low trust that no agent was ever shown, such as `{after: 180d, max_trust: 0.5}`. Absent
    archives nothing."""


class CollectionConfig(PlaceConfig):
    """Configuration of a store with a searchable collection; a store type adds its own fields."""

    on_stale: Literal["mark", "hide", "renew"] = Field(default="mark", json_schema_extra={"advanced": True})
    """Treatment of an item that was derived from others, as a summary, once these change or are gone: it is marked
    where it is shown, hidden from searches, or renewed from what is left when the store is saved, and marked until
    then."""

    consolidate: ConsolidateConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """Schedule by which near-duplicates are merged, and old conversations get digests; absent leaves it to
    `devmem consolidate`."""

    embedding: EmbeddingConfig | None = None
    """The model that makes items findable by meaning; absent searches by their text alone."""
    index: IndexConfig = Field(default_factory=IndexConfig, json_schema_extra={"advanced": True})
    """How the nearest vectors are found in a large store."""
    retrieval: RetrievalConfig = Field(default_factory=RetrievalConfig, json_schema_extra={"advanced": True})
    """The signals that rank what is found."""

    @model_validator(mode="after")
    def _check_needs(self) -> Self:
        if self.consolidate is not None and (self.history == "none" or (self.memory_path or "").endswith(".json")):
            raise ValueError(
                "`consolidate` needs the versions of items, by which it can be reverted: leave out "
                "`history: none`, and use a path that ends with .db"
            )
        if self.retrieval.tokens is not None and self.embedding is None:
            raise ValueError("`retrieval: {tokens: ...}` needs an `embedding:` block beside it")
        return self


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
            raise ValueError(f"`pattern` is not a regular expression: {error}") from error
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

    facts: FactsConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """Facts that a chat model extracts from what is said, each with the quote that it rests on; absent extracts
    none."""
