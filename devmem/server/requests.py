"""Requests and answers that HTTP, MCP and the command line share: their JSON, its schema, and what carries them out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import nullcontext
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Final, Self, TypeAlias

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from devmem.config.filter_forms import FilterForm, load_filter
from devmem.memory import Memory
from devmem.memory.reading import MemoryReader
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, is_quarantined
from devmem.model.results import Hit
from devmem.model.times import TIME_KEYS, datetime_of


def _of_json(value: object) -> object:
    """Return the object that a string holds as JSON, as query strings and models have it; other values unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


_Value: TypeAlias = str | int | float | bool
_Labels: TypeAlias = Annotated[
    dict[str, _Value | Annotated[list[_Value], Field(min_length=1, max_length=100)]],
    BeforeValidator(_of_json),
    Field(description="Labels they must have; of a list one of the values."),
]
_Where: TypeAlias = Annotated[
    FilterForm,
    BeforeValidator(_of_json),
    Field(
        description="Further conditions, all of which hold: "
        '{"metadata.stars": {">=": 3}, "none_of": [{"metadata.state": "done"}]}.'
    ),
]
_Metadata: TypeAlias = Annotated[dict[str, JsonValue], BeforeValidator(_of_json)]
Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=100_000)]
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Time: TypeAlias = Annotated[str, Field(min_length=4, max_length=64, coerce_numbers_to_str=True)]


class RequestModel(BaseModel):
    """A request; an unknown key is refused."""

    model_config = ConfigDict(extra="forbid")


class NewMemory(RequestModel):
    """A text to remember."""

    text: Text
    key: Id | None = Field(
        default=None, description="Name of the fact, such as `diet`: its new text takes the place of the one before."
    )
    if_version: str | None = Field(default=None, description="With key: the version read; `none` if new.")
    time: Time | None = Field(
        default=None,
        description="When it happened, as an ISO date or time; leave out if unknown.",
        validation_alias=AliasChoices(*TIME_KEYS),
    )
    expires_at: Time | None = Field(default=None, description="ISO date or time from which on it is forgotten.")
    metadata: _Metadata = Field(
        default_factory=dict, description='Labels to filter by later, such as {"topic": "launch"}.'
    )


class MemoryChange(RequestModel):
    """Changes of a memory; what is left out stays as it was."""

    text: Text | None = Field(default=None, description="Replaces the old text.")
    time: Time | None = Field(default=None, description="When it happened, as an ISO date or time.")
    expires_at: Time | None = Field(default=None, description="ISO date or time from which on it is forgotten.")
    metadata: _Metadata = Field(default_factory=dict, description="Labels to set; null takes a label out. Others stay.")
    if_version: str | None = Field(default=None, description="The version read; a newer one stays.")

    def apply(self, memory: Memory, item_id: str) -> MemoryItem:
        """Change a memory, and return it."""
        given = {name: getattr(self, name) for name in ("time", "expires_at") if name in self.model_fields_set}
        return memory.update(item_id, self.text, metadata=self.metadata, if_version=self.if_version, **given)


def _with_labels(labels: _Labels) -> Filter:
    return load_filter({f"metadata.{label}": wanted for label, wanted in labels.items()})


class SearchForm(RequestModel):
    """A search."""

    query: str = Field(min_length=1, max_length=10_000, description="A question, or words to search for.")
    limit: int = Field(default=5, ge=1, le=100, description="Maximum number of memories.")
    after: Time | None = Field(default=None, description="Only what happened then or later (ISO).")
    before: Time | None = Field(default=None, description="Only what happened before then (ISO).")
    asked_at: Time | None = Field(default=None, description="The user's time with its zone (ISO), for `yesterday`.")
    metadata: _Labels = Field(default_factory=dict)
    where: _Where = Field(default_factory=Filter)

    def matching(self) -> Filter:
        """Return the filter of `metadata` and `where`."""
        return self.where & _with_labels(self.metadata)

    def hits(self, memory: MemoryReader) -> list[Hit]:
        """Return what a memory finds, best first."""
        return memory.search(
            self.query,
            limit=self.limit,
            after=self.after,
            before=self.before,
            asked_at=self.asked_at,
            where=self.matching(),
        )


class ListForm(RequestModel):
    """A page of the newest memories."""

    limit: int = Field(default=20, ge=1, le=100, description="Maximum number of memories.")
    offset: int = Field(default=0, ge=0, description="Newest memories to leave out.")
    archived: bool = Field(default=False, description="Only archived ones.")
    metadata: _Labels = Field(default_factory=dict)
    where: _Where = Field(default_factory=Filter)

    def matching(self) -> Filter:
        """Return the filter of `metadata` and `where`."""
        return self.where & _with_labels(self.metadata)

    def items(self, memory: Memory) -> tuple[list[MemoryItem], int]:
        """Return the memories of the page, and the number of all of its kind."""
        where = self.matching()
        with memory.archived() if self.archived else nullcontext(memory) as reader:
            total = reader.count(where=where)
            # No database takes a number of any size.
            return reader.list(self.limit, where=where, offset=self.offset) if self.offset < total else [], total


class FoundMemory(BaseModel):
    """A memory in an answer."""

    id: str
    text: str
    time: datetime = Field(description="When it happened, or was stored where that is not known; UTC.")
    source: str | None = Field(default=None, description="Who or what it comes from.")
    score: float | None = Field(default=None, description="Rank score, larger is better; comparable within one answer.")
    metadata: dict[str, JsonValue]
    version: str

    @classmethod
    def of(cls, found: MemoryItem | Hit, **more: object) -> Self:
        """Return the form of a memory, or of a hit with its score."""
        item = found.item if isinstance(found, Hit) else found
        message = item.message
        return cls.model_validate(
            {
                "id": item.id,
                "text": item.text,
                "time": item.time,
                # The role or name of a message's sender, else the agent, tool or file that it comes from.
                "source": (message and message.source) or item.provenance.name or item.role or item.scope.agent,
                "score": found.score if isinstance(found, Hit) else None,
                "metadata": item.caller_metadata,
                "version": item.version,
                **more,
            }
        )


class StoredMemory(FoundMemory):
    """A memory, whole."""

    stored_at: datetime = Field(description="When it was stored; UTC.")
    expires_at: datetime | None = Field(default=None, description="From then on it is neither found nor listed; UTC.")
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    conversation: str | None = None
    trace: str | None = None
    run: str | None = None
    source_kind: str = Field(description="Kind of origin: `user`, `node`, `tool`, `file`, `import` or `summary`.")
    parents: list[str] = Field(description="Ids of the memories that it was derived from.")
    trust: float = Field(description="Reliability, from 0 (in quarantine) to 1 (the user's own words).")
    quarantined: bool = Field(default=False, description="Whether it is in quarantine, where no search finds it.")
    quarantine_reason: str | None = Field(default=None, description="Why the store's guard put it there.")
    input: str | None = Field(default=None, description="Of an exchange that `text` sums up, what the agent was told.")
    output: str | None = Field(default=None, description="Of an exchange that `text` sums up, what the agent said.")
    attachments: list[dict[str, JsonValue]] = Field(description="Its files, without their bytes.")

    @classmethod
    def of(cls, found: MemoryItem | Hit, **more: object) -> Self:
        """Return the form of a memory, or of a hit with its score."""
        item = found.item if isinstance(found, Hit) else found
        sides = (item.input_snapshot, item.output_snapshot)
        told, said = (side.text if side is not None and all(sides) else None for side in sides)
        return super().of(
            found,
            stored_at=datetime_of(item.created_at),
            expires_at=item.expires,
            **asdict(item.scope),
            source_kind=item.provenance.kind,
            parents=item.provenance.parents,
            trust=item.trust,
            quarantined=is_quarantined(item),
            quarantine_reason=item.quarantine_reason,
            input=told,
            output=said,
            attachments=[one for side in sides if side is not None for one in side.attachment_overview()],
            **more,
        )


SIGNALS: Final = ("similarity", "lexical", "recency", "rerank")
"""The signals of a hit beside its score, in the order in which they are shown."""


class RankedMemory(StoredMemory):
    """A memory that a search found, with the signals that ranked it."""

    store: str
    passage: str | None = Field(default=None, description="The passage of a long text that was found.")
    field: str | None = Field(default=None, description="The metadata field that was found.")
    stale: str | None = Field(default=None, description="Why it may no longer hold.")
    similarity: float | None = None
    lexical: float | None = None
    recency: float | None = None
    rerank: float | None = None
    parts: dict[str, float] = Field(description="Contributions to the score.")
    waiting: bool = Field(description="Whether its embedding is pending.")
    stages: list[str] | None = Field(default=None, description="Stages of a run at which it was recalled.")

    @classmethod
    def of(cls, found: MemoryItem | Hit, **more: object) -> Self:
        """Return the form of a hit."""
        signals = {name: getattr(found, name) for name in (*SIGNALS, "store", "passage", "field", "parts")}
        return super().of(found, **signals, stale=getattr(found, "stale", "") or None, **more)


def ranked(hits: Iterable[Hit], waiting: Collection[str] | None = None) -> list[RankedMemory]:
    """Return the form of hits; `waiting` has the ids of items whose embedding is pending, by default `waiting_ids`."""
    found = list(hits)
    pending = waiting_ids(found) if waiting is None else waiting
    return [RankedMemory.of(hit, waiting=hit.item.id in pending) for hit in found]


def waiting_ids(hits: Iterable[Hit]) -> frozenset[str]:
    """Return the ids of the items among the hits whose embedding is pending; each store has its own model."""
    found = list(hits)
    # A hit without a similarity tells something about its item only if the query had an embedding, and was searched:
    # the latest items, which some stores return unasked, have no signal at all.
    by_meaning = {hit.store for hit in found if hit.similarity is not None}
    return frozenset(
        hit.item.id for hit in found if hit.store in by_meaning and hit.similarity is None and hit.lexical is not None
    )


def problems_of(error: ValidationError) -> list[str]:
    """Return what is wrong with a request, each after the key that it is about."""
    found = ((".".join(map(str, each["loc"])), each["msg"]) for each in error.errors())
    return [f"{place}: {said}" if place else said for place, said in found]
