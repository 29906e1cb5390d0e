"""Adding, finding, changing and forgetting through the front door."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import JsonValue

import devmem
from devmem.errors import ScopeError
from devmem.messages import AIMessage, Message


def texts(records: object) -> list[str]:
    return [record.text for record in records]  # type: ignore[attr-defined]


def test_a_long_text_is_kept_whole_and_found_by_its_end(memory: devmem.Memory) -> None:
    text = "An uneventful sentence about the weather. " * 200 + "The vault opens with cinnamon."
    memory.add(text)
    hit = memory.search("cinnamon vault")[0]
    assert hit.text == text
    assert len(hit.snippet) < len(text)
    assert "cinnamon" in hit.snippet


def test_a_misspelt_role_is_refused_and_a_speaker_is_kept(memory: devmem.Memory) -> None:
    for role, meant in (("usr", "user"), ("Asistant", "assistant"), ("sistem", "system")):
        with pytest.raises(devmem.errors.MessageError, match=f"{role}.*did you mean '{meant}'"):
            memory.add({"role": role, "content": "Hello."})
    memory.add([{"role": role, "content": "Hello."} for role in ("User", "human", "Engineer", "User 2")])
    assert {record.message.source or record.role for record in memory.list() if record.message} == {
        "user",
        "Engineer",
        "User 2",
    }


def test_a_message_without_content_is_refused_as_a_blank_text_is(memory: devmem.Memory) -> None:
    with pytest.raises(ValueError, match="nothing to remember: the message has no content"):
        memory.add(Message(""))
    assert memory.add([Message(""), Message("Hello.")]) == [memory.list()[0].id]


def test_messages_of_a_chat_api_keep_role_name_and_parts(memory: devmem.Memory) -> None:
    ids = memory.add(
        [
            {"role": "user", "name": "Ann", "content": "Look at this."},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]},
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.test/i.png"}}]},
        ],
        session="s1",
    )
    records = memory.list(10)[::-1]
    assert [record.id for record in records] == ids
    assert [record.role for record in records] == ["user", "system", "user"]
    assert [record.text for record in records][:2] == ["Look at this.", "Be brief."]
    assert records[0].message.source == "Ann"  # type: ignore[union-attr]
    assert records[2].message.blocks[0].data == {"image_url": {"url": "https://x.test/i.png"}}  # type: ignore[union-attr]
    assert {record.scope.session for record in records} == {"s1"}


def test_a_message_is_kept_once_in_each_scope(memory: devmem.Memory) -> None:
    message = AIMessage("The launch is on June 2nd.", source="helper", metadata={"topic": "launch"})
    first = memory.add(message, user="ann")
    assert memory.add(message, user="ann") == first != memory.add(message, user="bob")
    record = memory.get(first[0])
    assert record is not None
    assert record.message is not None
    assert record.message.identical(message)
    assert texts(memory.search("launch", user="ann", metadata={"topic": "launch"})) == [message.content]


def test_an_id_of_the_callers_is_replaced_in_its_scope_and_nowhere_else(memory: devmem.Memory) -> None:
    assert memory.add("one", id="k", user="ann") == "k"
    assert memory.add("two", id="k", user="ann") == "k"
    assert memory.add("two", id="k", user="ann", metadata={"sure": True}) == "k"
    assert texts(memory.list(user="ann")) == ["two"]
    assert memory.list(user="ann")[0].metadata == {"sure": True}
    with pytest.raises(ScopeError, match="taken in another scope"):
        memory.add("three", id="k", user="bob")
    with pytest.raises(ValueError, match="`id`"):
        memory.add(["one", "two"], id="k")  # type: ignore[call-overload]


def test_what_has_expired_is_gone(memory: devmem.Memory) -> None:
    now = memory.store.setup.clock()
    item_id = memory.add("The guest code is 99.", expires_at=timedelta(hours=1))
    assert memory.get(item_id) is not None
    memory._clock = lambda: now + 7200
    assert memory.get(item_id) is None
    with pytest.raises(ValueError, match="past"):
        memory.add("x", expires_at="2020-01-01")


def test_an_update_changes_what_is_given_and_keeps_the_rest(memory: devmem.Memory) -> None:
    item_id = memory.add("The launch is on May 5th.", metadata={"topic": "launch", "draft": True}, time="2026-05-01")
    before = memory.get(item_id)
    record = memory.update(item_id, "The launch is on June 2nd.", metadata={"draft": None, "by": "ann"})
    assert record == memory.get(item_id)
    assert before is not None
    assert (record.text, record.time) == ("The launch is on June 2nd.", before.time)
    assert record.metadata == {"topic": "launch", "by": "ann"}
    assert len(memory) == 1
    dated = memory.update(item_id, time="2026-06-02", expires_at=timedelta(days=1))
    assert (f"{dated.time:%Y-%m-%d}", dated.expires_at is not None) == ("2026-06-02", True)
    dateless = memory.update(item_id, time=None, expires_at=None)
    assert (dateless.event_time, dateless.expires_at, dateless.text) == (None, None, record.text)


def test_an_updated_message_stays_a_message(memory: devmem.Memory) -> None:
    (item_id,) = memory.add({"role": "assistant", "content": "May 5th."})
    memory.update(item_id, "June 2nd.")
    record = memory.get(item_id)
    assert record is not None
    assert (record.text, record.role, record.message.content) == ("June 2nd.", "assistant", "June 2nd.")  # type: ignore[union-attr]
    assert memory.search("May 5th") == []


def test_metadata_of_the_callers_may_be_called_message(memory: devmem.Memory) -> None:
    metadata: dict[str, JsonValue] = {"message": {"a": 1}, "cause_by": "x"}
    record = memory.get(memory.add("A long text. " * 200, metadata=metadata))
    assert record is not None
    assert (record.metadata, record.message, record.role) == (metadata, None, None)


def test_forgetting_by_id_scope_and_filter(memory: devmem.Memory) -> None:
    one, two, three = memory.add(["one", "two", "three"], user="ann", metadata={"topic": "numbers"})
    memory.add("four", metadata={"topic": "numbers"})
    assert memory.forget(one, "not there", dry_run=True).items == 1
    assert len(memory) == 4
    assert memory.forget(one).items == 1
    assert memory.forget(metadata={"topic": "numbers"}).items == 1
    assert texts(memory.list(user="ann")) == ["three", "two"]
    assert memory.forget(two, user="bob").items == 0
    assert memory.forget(user="ann", dry_run=True).items == 2
    assert memory.forget(user="ann").items == 2
    assert three not in memory


def test_forgetting_needs_to_be_told_what(memory: devmem.Memory) -> None:
    memory.add("one", user="ann")
    with pytest.raises(ValueError, match="say what to forget"):
        memory.forget()
    with pytest.raises(ValueError, match="say what to forget"):
        memory.forget(user=None, where=devmem.Filter())
    assert memory.forget(user=devmem.ANY).items == 1


def test_a_list_of_ids_needs_a_star(memory: devmem.Memory) -> None:
    ids = memory.add(["one", "two", "three"])
    with pytest.raises(TypeError, match=r"forget\(\*ids\)"):
        memory.forget(ids)  # type: ignore[arg-type]
    assert memory.forget(*ids, ids[0]).items == 3


def test_without_a_user_only_what_is_bound_to_nobody_is_there(memory: devmem.Memory) -> None:
    memory.add("The code is 1.", user="ann")
    memory.add("The code is 2.")
    assert texts(memory.search("code")) == texts(memory.list()) == texts(memory) == ["The code is 2."]
    assert len(memory.search("code", user=devmem.ANY)) == len(memory.list(user=devmem.ANY)) == len(memory) == 2
    assert (memory.count(), memory.count(user="ann"), memory.count(user=devmem.ANY)) == (1, 1, 2)
