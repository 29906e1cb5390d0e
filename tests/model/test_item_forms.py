"""Items and messages go through their JSON forms unchanged, also a message that is kept as an item."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.config.filter_forms import dump_filter, load_filter
from devmem.errors import MessageError
from devmem.messages import (
    AttachmentRef,
    Message,
    MessageBlock,
    Role,
    item_to_message,
    message_to_item,
    register_payload,
)
from devmem.model.filters import ITEM_FIELDS, SCOPE_PARTS, ItemField
from devmem.model.items import dump_item_json, load_item_json
from devmem.stores import Provenance, SnapshotBlock, SourceKind, content_hash, dump_item, load_item
from tests.strategies import SCOPES, SNAPSHOTS, TEXTS, items, messages


@given(item=items(8))
def test_any_item_through_its_json_form(item: MemoryItem) -> None:
    loaded = load_item(dump_item(item))
    assert loaded == item
    assert (loaded.embedding is None) == (item.embedding is None)
    if item.embedding is not None:
        assert np.array_equal(loaded.embedding, item.embedding)  # type: ignore[arg-type]


@given(item=items())
def test_any_item_through_its_json_text(item: MemoryItem) -> None:
    text = dump_item_json(item)
    assert load_item_json(text) == load_item_json(text.decode()) == item


@pytest.mark.parametrize(
    "raw", ["", "[]", "5", '{"id": "1"}', '{"content_summary": 5}', '{"x": "\\ud800"}', '"\\ud800"']
)
def test_a_text_that_is_no_item(raw: str) -> None:
    with pytest.raises(ValidationError):
        load_item_json(raw)


@given(text=TEXTS, snapshot=SNAPSHOTS)
def test_the_content_hash_is_of_the_content_alone(text: str, snapshot: MemoryContentSnapshot) -> None:
    one = MemoryItem(content_summary=text, output_snapshot=snapshot)
    two = MemoryItem(content_summary=text, output_snapshot=snapshot, scope=Scope(user="other"), trust=0.1, id="other")
    assert one.content_hash == two.content_hash
    assert len(one.content_hash) == 64
    assert one.content_hash != MemoryItem(content_summary=text + "!", output_snapshot=snapshot).content_hash


def test_the_content_hash_tells_apart() -> None:
    """Text in another part, other attachments of one name, and no snapshot at all."""
    image = AttachmentRef(attachment_id="a", data_uri="data:,1")
    other = AttachmentRef(attachment_id="a", data_uri="data:,2")
    snapshots = [
        None,
        MemoryContentSnapshot(text="y"),
        *(
            MemoryContentSnapshot(blocks=(SnapshotBlock(block=MessageBlock(type="image", attachment=ref)),))
            for ref in (image, other)
        ),
    ]
    hashes = [content_hash("x", snapshot) for snapshot in snapshots] + [content_hash("x", None, snapshots[1])]
    assert len(set(hashes)) == len(hashes)


@given(scope=SCOPES, other=SCOPES)
def test_a_scope_admits_what_agrees_with_it(scope: Scope, other: Scope) -> None:
    assert Scope().admits(other)
    assert scope.admits(scope)
    if scope.admits(other) and other.admits(scope):
        assert scope == other


def test_snapshots_of_messages() -> None:
    """The same text that DevAll makes of them."""
    image = MessageBlock(type="image", attachment=AttachmentRef(attachment_id="a", name="x.png"))
    messages = [Message(role=Role.USER, content="look", blocks=(image,)), Message(role=Role.ASSISTANT, content="nice")]
    snapshot = MemoryContentSnapshot.from_messages(messages)
    assert snapshot is not None
    assert snapshot.text == "(user) look\n\n(assistant) nice"
    assert snapshot.blocks == (SnapshotBlock(role="user", block=image),)
    assert snapshot.has_multimodal()
    assert MemoryContentSnapshot.from_messages([]) is None
    assert MemoryContentSnapshot.from_message("plain") == MemoryContentSnapshot(text="plain")
    assert MemoryContentSnapshot.from_message(messages[0]).text == "look"
    assert messages[0].text() == "look\n[image attachment: x.png]"
    assert messages[0].for_chat() == {"role": "user", "content": "look\n[image attachment: x.png]"}
    assert messages[0].to_dict() == messages[0].for_chat()


@pytest.mark.parametrize("raw", [[], [[1.0]], "abc"])
def test_an_embedding_is_one_row_of_numbers(raw: object) -> None:
    with pytest.raises(ValidationError):
        load_item({"content_summary": "x", "embedding": raw})


@pytest.mark.parametrize("field", ITEM_FIELDS, ids=attrgetter("name"))
def test_each_field_filters_under_its_key(field: ItemField) -> None:
    value = min(field.values or {"x"})
    where = load_filter({field.key: value})
    made = MemoryItem(content_summary="", scope=Scope(**dict.fromkeys(SCOPE_PARTS, "x")))
    source = Provenance(kind=SourceKind.FILE, name="x")
    assert [where.admits(one, 0.0) for one in (replace(made, provenance=source), MemoryItem(content_summary=""))] == [
        True,
        field.of(MemoryItem(content_summary="")) == value,
    ]
    assert dump_filter(where) == {field.key: value}
    assert not where.everything()


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
