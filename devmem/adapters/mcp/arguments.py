"""Arguments of the MCP tools, as models send them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from devmem import Filter
from devmem.server.requests import Id, ListForm, MemoryChange, NewMemory, RequestModel, SearchForm, Text
from devmem.stores import LEAST_TRUST


class Lenient(BaseModel):
    """Arguments of a tool; models send null, or an empty string, for what they leave out."""

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        optional = {name for name, field in cls.model_fields.items() if name != "text" and not field.is_required()}
        left_out = (None, "", "null")
        return {name: value for name, value in given.items() if name not in optional or value not in left_out}


def _texts(value: object) -> object:
    """Return the texts of a JSON list of strings that is a string itself; other values unchanged."""
    try:
        found = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return value
    return found if isinstance(found, list) and found and all(isinstance(each, str) for each in found) else value


def _ids(value: object) -> object:
    """Return one id as a list of one."""
    found = _texts(value)
    return [found] if isinstance(found, str) else found


_Texts: TypeAlias = Annotated[
    Text | Annotated[list[Text], Field(min_length=1, max_length=100)],
    BeforeValidator(_texts),
    Field(
        description="The fact, decision or preference, in words that make sense without this conversation; or a list."
    ),
]


class RememberArguments(Lenient, NewMemory):
    """Arguments of `remember`."""

    text: _Texts  # type: ignore[assignment]


class RecallArguments(Lenient, SearchForm):
    """Arguments of `recall`."""


class ForgetArguments(Lenient, RequestModel):
    """Arguments of `forget`."""

    ids: Annotated[list[Id], BeforeValidator(_ids)] = Field(
        min_length=1, max_length=100, description="Ids, as recall and list show them."
    )


class ListArguments(Lenient, ListForm):
    """Arguments of `list`."""

    def matching(self) -> Filter:
        """Return the filter of the list, which has nothing of what a guard caught."""
        return super().matching() & Filter(min_trust=LEAST_TRUST)


class IdArguments(Lenient, RequestModel):
    """Arguments of tools for one memory."""

    id: Id = Field(description="Id, as recall and list show it.")


class UpdateArguments(MemoryChange, IdArguments):
    """Arguments of `update`."""
