"""Arguments of the tools; their JSON Schemas are made from these models."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Value: TypeAlias = str | int | float | bool
"""One value of an item's metadata."""
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
_Time: TypeAlias = Annotated[str, Field(min_length=4, max_length=64)]


class Arguments(BaseModel):
    """Arguments of a tool; an unknown one is refused."""

    model_config = ConfigDict(extra="forbid")


class RememberArguments(Arguments):
    """Arguments of `remember`."""

    text: str = Field(
        min_length=1,
        max_length=100_000,
        description="The fact, decision or preference, in words that make sense without this conversation.",
    )
    time: _Time | None = Field(
        default=None, description="When it happened, as an ISO date or time; leave out if unknown."
    )
    expires_at: _Time | None = Field(default=None, description="ISO date or time from which on it is forgotten.")
    metadata: dict[str, Value] = Field(
        default_factory=dict, description='Labels to filter by later, such as {"topic": "launch"}.'
    )


class RecallArguments(Arguments):
    """Arguments of `recall`."""

    query: str = Field(min_length=1, max_length=10_000, description="A question, or words to search for.")
    limit: int = Field(default=5, ge=1, le=50, description="Maximum number of memories.")
    after: _Time | None = Field(default=None, description="Only what happened at this ISO date or time, or later.")
    before: _Time | None = Field(default=None, description="Only what happened before this ISO date or time.")
    metadata: dict[str, Value] = Field(default_factory=dict, description="Labels that the memories must have.")


class ForgetArguments(Arguments):
    """Arguments of `forget`."""

    ids: list[_Id] = Field(
        min_length=1, max_length=100, description="Ids of the memories, as recall and list show them."
    )


class ListArguments(Arguments):
    """Arguments of `list`."""

    limit: int = Field(default=20, ge=1, le=100, description="Maximum number of memories.")
    offset: int = Field(default=0, ge=0, description="Number of the newest memories to leave out.")


class UpdateArguments(Arguments):
    """Arguments of `update`."""

    id: _Id = Field(description="Id of the memory, as recall and list show it.")
    text: str | None = Field(default=None, min_length=1, max_length=100_000, description="Replaces the old text.")
    time: _Time | None = Field(default=None, description="When it happened, as an ISO date or time.")
    expires_at: _Time | None = Field(default=None, description="ISO date or time from which on it is forgotten.")
    metadata: dict[str, Value | None] = Field(
        default_factory=dict, description="Labels to set; null takes a label out. Others stay."
    )
