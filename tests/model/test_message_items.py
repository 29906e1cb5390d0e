"""A message kept as an item is read back whole, also from the metadata that earlier stores wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.errors import MessageError
from devmem.messages import (
    Message,
    Role,
    item_to_message,
    message_to_item,
    register_payload,
)
from devmem.model.items import dump_item_json, load_item_json
from devmem.stores import Provenance, SourceKind
from tests.strategies import messages


@register_payload("tests.Plan")
class Plan(BaseModel):
    steps: list[str]


def kept(message: Message, *, as_input: bool | None = None) -> MemoryItem:
    item = message_to_item(
        message, item_id="i", scope=Scope(user="ann"), summary="shown", stored_at=5.0, as_input=as_input
    )
    return load_item_json(dump_item_json(item))


@given(message=messages(), as_input=st.sampled_from([None, True, False]))
def test_any_message_through_an_item(message: Message, as_input: bool | None) -> None:
    item = kept(message, as_input=as_input)
    assert item.is_message
    assert item_to_message(item).identical(message)


@pytest.mark.parametrize(
    ("kind", "role"), [(SourceKind.NODE, Role.ASSISTANT), (SourceKind.USER, Role.USER), (SourceKind.IMPORT, Role.USER)]
)
def test_an_item_that_keeps_no_message_becomes_one_of_its_summary(kind: SourceKind, role: Role) -> None:
    item = MemoryItem(
        content_summary="text",
        id="x",
        provenance=Provenance(kind=kind, name="plan"),
        metadata={"brain_message": "exchange"},
        created_at=7.0,
    )
    read = item_to_message(item)
    assert not item.is_message
    assert (read.role, read.content, read.id, read.source, read.created_at) == (role, "text", "x", "plan", 7.0)


def test_an_unreadable_message_is_named_by_its_item() -> None:
    item = MemoryItem(
        content_summary="",
        id="broken",
        metadata={"message": {"type": "Gone", "id": "1", "role": "user"}},
        output_snapshot=MemoryContentSnapshot(),
    )
    with pytest.raises(MessageError, match=r"item 'broken': .*'Gone'"):
        item_to_message(item)
