"""Arguments of the MCP tools, as models send them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from devmem import Filter
from devmem.config import FilterForm

Value: TypeAlias = str | int | float | bool
"""A value that a search can ask for."""
Labels: TypeAlias = dict[str, Value | Annotated[list[Value], Field(min_length=1, max_length=100)]]
"""Labels with the value, or the values of which one, that memories must have."""
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=100_000)]
_Texts: TypeAlias = Annotated[list[_Text], Field(min_length=1, max_length=100)]
Time: TypeAlias = Annotated[str, Field(min_length=4, max_length=64, coerce_numbers_to_str=True)]
_WHERE: Final = (
    'Further conditions, all of which hold: {"metadata.stars": {">=": 3}, "none_of": [{"metadata.state": "done"}]}.'
)


class Arguments(BaseModel):
    """Arguments of a tool; an unknown one is refused.

    Models send null, or an empty string, for what they leave out, and lists and objects as JSON in a string.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        optional = {name for name, field in cls.model_fields.items() if name != "text" and not field.is_required()}
        left_out = (None, "", "null")
        kept = {name: value for name, value in given.items() if name not in optional or value not in left_out}
        for name in kept.keys() & {"metadata", "where"}:
            found = _json(kept[name])
            kept[name] = found if isinstance(found, dict) else kept[name]
        return kept


def _json(value: object) -> object:
    """Return what a string holds as JSON; None for what does not."""
    try:
        return json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _texts(value: object) -> object:
    """Return the texts of a JSON list of strings that is a string itself; other values unchanged."""
    found = _json(value)
    return found if isinstance(found, list) and found and all(isinstance(each, str) for each in found) else value


def _ids(value: object) -> object:
    """Return one id as a list of one."""
    found = _texts(value)
    return [found] if isinstance(found, str) else found


class RememberArguments(Arguments):
    """Arguments of `remember`."""

    text: Annotated[_Text | _Texts, BeforeValidator(_texts)] = Field(
        description="The fact, decision or preference, in words that make sense without this conversation; or a list.",
    )
    key: _Id | None = Field(
        default=None, description="Name of the fact, such as `diet`: its new text takes the place of the one before."
    )
    if_version: str | None = Field(default=None, description="With key: the version read; `none` if new.")
    time: Time | None = Field(
        default=None, description="When it happened, as an ISO date or time; leave out if unknown."
    )
    expires_at: Time | None = Field(default=None, description="ISO date or time from which on it is forgotten.")
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description='Labels to filter by later, such as {"topic": "launch"}.'
    )


class RecallArguments(Arguments):
    """Arguments of `recall`."""

    query: str = Field(min_length=1, max_length=10_000, description="A question, or words to search for.")
    limit: int = Field(default=5, ge=1, le=50, description="Maximum number of memories.")
    after: Time | None = Field(default=None, description="Only what happened then or later (ISO).")
    before: Time | None = Field(default=None, description="Only what happened before then (ISO).")
    asked_at: Time | None = Field(default=None, description="The user's time with its zone (ISO), for `yesterday`.")
    metadata: Labels = Field(default_factory=dict, description="Labels they must have; of a list one of the values.")
    where: FilterForm = Field(default_factory=Filter, description=_WHERE)


class ForgetArguments(Arguments):
    """Arguments of `forget`."""

    ids: Annotated[list[_Id], BeforeValidator(_ids)] = Field(
        min_length=1, max_length=100, description="Ids, as recall and list show them."
    )


class ListArguments(Arguments):
    """Arguments of `list`."""

    limit: int = Field(default=20, ge=1, le=100, description="Maximum number of memories.")
    offset: int = Field(default=0, ge=0, description="Newest memories to leave out.")
    archived: bool = Field(default=False, description="Only archived ones.")
    metadata: Labels = Field(default_factory=dict, description="Labels they must have; of a list one of the values.")
    where: FilterForm = Field(default_factory=Filter, description=_WHERE)


class IdArguments(Arguments):
    """Arguments of tools for one memory."""

    id: _Id = Field(description="Id, as recall and list show it.")


class UpdateArguments(Arguments):
    """Arguments of `update`."""

    id: _Id = Field(description="Id, as recall and list show it.")
    text: str | None = Field(default=None, min_length=1, max_length=100_000, description="Replaces the old text.")
    time: Time | None = Field(default=None, description="When it happened, as an ISO date or time.")
    expires_at: Time | None = Field(default=None, description="ISO date or time from which on it is forgotten.")
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description="Labels to set; null takes a label out. Others stay."
    )
    if_version: str | None = Field(default=None, description="The version read; a newer one stays.")
