"""Recording of what the agents of a workflow say to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from devmem.config.base import ConfigModel
from devmem.config.document import Path
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.store import StoreDeclaration
from devmem.config.wording import choices, did_you_mean, quoted

RecordedType: TypeAlias = Literal["agent", "tool", "knowledge", "llm"]


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


def check_recording(
    report: Report, recording: ConversationRecording, path: Path, stores: Sequence[StoreDeclaration]
) -> None:
    """Report a block that names no store that keeps records."""
    names = [store.name for store in stores]
    where = (*path, "store")
    if recording.store not in names:
        hint = did_you_mean(recording.store, names)
        message = f"there is no store {quoted(recording.store)}{hint} Declared stores: {choices(names)}."
        report.error(where, message, Rule.UNKNOWN_NAME)
        return
    declared = stores[names.index(recording.store)]
    if not getattr(declared.config, "keeps_records", False):
        message = f"stores of type {declared.type!r} keep no records; name one of type 'conversation'"
        report.error(where, message)
