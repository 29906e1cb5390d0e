"""Items of a conversation, as this version and earlier ones wrote them."""

from __future__ import annotations

from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.messages import Message, Role
from devmem_stores.brain.archive import KIND_KEY, entries_of

from .conftest import MakeBrain


def test_messages_of_an_earlier_version_are_read(make_brain: MakeBrain) -> None:
    """devmem 0.1.0 kept the message's form under the key that names the kind today."""
    form: dict[str, JsonValue] = {"id": "m1", "role": "user", "source": "ann", "created_at": 5.0}
    old = MemoryItem(
        id="ann:c:m1",
        content_summary="ann: Tea, please.",
        metadata={KIND_KEY: form},
        input_snapshot=MemoryContentSnapshot(text="Tea, please."),
        scope=Scope(user="ann", conversation="c"),
    )
    (entry,) = entries_of(old)
    assert (entry.message.id, entry.message.content, entry.message.source) == ("m1", "Tea, please.", "ann")
    store = make_brain()
    store.add_item(old)
    assert [message.content for message in store.brain("ann", "c").snapshot().history] == ["Tea, please."]


def test_imported_message_of_another_store_is_not_part_of_the_conversation(make_brain: MakeBrain) -> None:
    store = make_brain()
    brain = store.brain("ann", "c")
    brain.add_talk(Message(role=Role.USER, content="Mine.", id="m1"))
    (item,) = store.recent(1)
    metadata = {key: value for key, value in item.metadata.items() if key != KIND_KEY}
    other = make_brain(path="other.db")
    other.add([MemoryItem(id="x", content_summary="x", metadata=metadata, input_snapshot=item.input_snapshot)])
    assert other.brain().snapshot().history == []
