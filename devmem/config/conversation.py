"""Recording of what the agents of a workflow say to each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from devmem.config.base import ConfigModel
from devmem.config.document import Path
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.store import StoreDeclaration
from devmem.config.wording import choices, did_you_mean, quoted
from devmem.model.interactions import Interaction, InteractionKind, Participant, ParticipantType

RecordedType: TypeAlias = Literal["agent", "tool", "knowledge", "llm"]


class CopyRule(ConfigModel):
    """Records that are copied into another store as well, for agents that have a memory of their own."""

    into: str = Field(min_length=1)
    """Name of the store that takes the copies."""
    agents: tuple[str, ...] = ()
    """Names of agents whose interactions are copied; none named means all."""
    memory_types: tuple[ParticipantType, ...] = (ParticipantType.USER, ParticipantType.AGENT)
    """Counterparts whose exchanges with the agents are copied."""

    def admits(self, record: Interaction) -> bool:
        """Whether a record is copied; summaries are not."""
        if record.kind is InteractionKind.SUMMARY:
            return False
        sides = (record.source, record.target)
        return any(self._is_of(one) and other.type in self.memory_types for one, other in (sides, sides[::-1]))

    def _is_of(self, one: Participant) -> bool:
        return one.type is ParticipantType.AGENT and (not self.agents or one.name in self.agents)


class ConversationRecording(ConfigModel):
    """Recording of each run: the store that takes it, and its kinds of calls."""

    store: str = Field(min_length=1)
    """Name of the store of type `conversation` that takes the records."""
    active: bool = True
    """Record; without it the block has no effect."""
    types: tuple[RecordedType, ...] = ("agent", "tool", "knowledge")
    """Kinds of callees whose calls are recorded; `llm` adds each prompt of a chat model with its answer."""
    language: Literal["en", "zh"] = "en"
    """Language in which the records are worded."""
    max_content_length: int = Field(default=20_000, ge=100, json_schema_extra={"advanced": True})
    """Maximum number of characters of one record; more are cut with a mark."""
    secret_patterns: tuple[str, ...] = Field(default=(), json_schema_extra={"advanced": True})
    """Regular expressions; what they match is not recorded, beside what looks like a key or a password."""
    max_journal_bytes: int = Field(default=256 << 20, ge=10_000, json_schema_extra={"advanced": True})
    """Maximum number of bytes that wait for the store; beyond it new records are counted, and not kept."""
    copies: tuple[CopyRule, ...] = ()
    """Rules by which records are copied into other stores."""

    @field_validator("secret_patterns")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return patterns


def check_recording(
    report: Report, recording: ConversationRecording, path: Path, stores: Sequence[StoreDeclaration]
) -> None:
    """Report a block that names no store that keeps records."""
    names = [store.name for store in stores]
    for index, rule in enumerate(recording.copies):
        where = (*path, "copies", index, "into")
        _check_name(report, rule.into, where, names)
        if rule.into == recording.store:
            report.error(where, f"the records are in {quoted(rule.into)} already; name another store")
    where = (*path, "store")
    if not _check_name(report, recording.store, where, names):
        return
    declared = stores[names.index(recording.store)]
    if not getattr(declared.config, "keeps_records", False):
        message = f"stores of type {declared.type!r} keep no records; name one of type 'conversation'"
        report.error(where, message)


def _check_name(report: Report, name: str, path: Path, names: Sequence[str]) -> bool:
    if name in names:
        return True
    hint = did_you_mean(name, names)
    report.error(path, f"there is no store {quoted(name)}{hint} Declared stores: {choices(names)}.", Rule.UNKNOWN_NAME)
    return False
