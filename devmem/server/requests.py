"""Requests and answers that HTTP and MCP share: their JSON, its schema, and what carries them out on a memory."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import datetime
from typing import Annotated, Self, TypeAlias

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from devmem.config.filter_forms import FilterForm, load_filter
from devmem.memory import Memory
from devmem.memory.reading import MemoryReader
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.results import Hit
from devmem.model.times import TIME_KEYS


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


def problems_of(error: ValidationError) -> list[str]:
    """Return what is wrong with a request, each after the key that it is about."""
    found = ((".".join(map(str, each["loc"])), each["msg"]) for each in error.errors())
    return [f"{place}: {said}" if place else said for place, said in found]
