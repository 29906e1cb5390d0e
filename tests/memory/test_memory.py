"""Adding, finding, changing and forgetting through the front door."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

import devmem
from devmem.errors import ItemNotFoundError, NotStoredError, ScopeError
from devmem.messages import AIMessage, Message
from devmem.stores import ModelIdentity, Vector


def texts(records: object) -> list[str]:
    return [record.text for record in records]  # type: ignore[attr-defined]


def test_a_short_text_is_kept_as_it_is(memory: devmem.Memory) -> None:
    item_id = memory.add("李娜对花生过敏。")
    record = memory.get(item_id)
    assert record is not None
    assert record.text == record.content_summary == "李娜对花生过敏。"


def test_a_long_text_is_kept_whole_and_found_by_its_end(memory: devmem.Memory) -> None:
    text = "An uneventful sentence about the weather. " * 200 + "The vault opens with cinnamon."
    memory.add(text)
    hit = memory.search("cinnamon vault")[0]
    assert hit.text == text
    assert len(hit.snippet) < len(text)
    assert "cinnamon" in hit.snippet


def test_several_texts_get_an_id_each(memory: devmem.Memory) -> None:
    ids = memory.add(["one", "two"], metadata={"topic": "numbers"})
    assert texts(memory) == ["one", "two"]
    assert [memory.get(one).id for one in ids] == ids  # type: ignore[union-attr]
    assert memory.search("one two", metadata={"topic": "letters"}) == []


def test_records_are_listed_by_page(memory: devmem.Memory) -> None:
    memory.add(["one", "two", "three"])
    assert texts(memory.list(2)) == ["three", "two"]
    assert texts(memory.list(2, offset=2)) == ["one"]
    assert memory.list(2, offset=3) == []


class OneDirection:
    """An embedder for which all texts mean the same."""

    identity = ModelIdentity(name="one-direction", dimension=2)

    def embed(self, texts: Sequence[str]) -> Vector:
        return np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(texts), 1))


def test_a_model_of_the_callers_embeds_what_is_added_and_asked(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "m.db", embedding=OneDirection()) as memory:
        memory.add("harbour")
        assert memory.store.info().embedding == "one-direction"
        assert memory.search("nothing of it")[0].similarity == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("content", ["", "  \n", ["fine", " "], 5, [b"bytes"]])
def test_what_is_nothing_to_remember_is_refused_whole(memory: devmem.Memory, content: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        memory.add(content)  # type: ignore[call-overload]
    assert len(memory) == 0


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


def test_times_are_taken_as_datetime_number_or_text_and_come_back_in_utc(memory: devmem.Memory) -> None:
    noon = datetime(2026, 6, 2, 12, tzinfo=UTC)
    for when in (noon, noon.timestamp(), "2026-06-02T12:00:00Z", noon.astimezone().replace(tzinfo=None)):
        record = memory.get(memory.add("The launch.", time=when))
        assert record is not None
        assert record.time == noon
    assert len(memory.search("launch", after=noon)) > 0
    assert memory.search("launch", before=noon) == []


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
    assert memory.search("May 5th") == [] or memory.search("May 5th")[0].id == item_id
    assert len(memory) == 1


def test_an_update_of_the_metadata_alone_is_kept(memory: devmem.Memory) -> None:
    item_id = memory.add("The launch is on June 2nd.")
    memory.update(item_id, metadata={"sure": True}, time="2026-06-02", expires_at=timedelta(days=1))
    memory.update(item_id, time=None, expires_at=None)
    record = memory.get(item_id)
    assert record is not None
    assert (record.metadata, record.event_time, record.expires_at) == ({"sure": True}, None, None)


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


def test_an_update_of_nothing_is_an_error(memory: devmem.Memory) -> None:
    with pytest.raises(ItemNotFoundError, match="'gone'"):
        memory.update("gone", "x")


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


def test_a_filter_may_name_the_user(memory: devmem.Memory) -> None:
    memory.add("The code is 1.", user="ann")
    memory.add("The code is 2.", user="bob")
    anns = devmem.Filter(scope=devmem.Scope(user="ann"))
    assert texts(memory.search("code", where=anns)) == texts(memory.list(where=anns)) == ["The code is 1."]
    assert memory.forget(where=anns).items == 1
    assert texts(memory.list(user=devmem.ANY)) == ["The code is 2."]


def test_without_a_user_only_what_is_bound_to_nobody_is_there(memory: devmem.Memory) -> None:
    memory.add("The code is 1.", user="ann")
    memory.add("The code is 2.")
    assert texts(memory.search("code")) == texts(memory.list()) == texts(memory) == ["The code is 2."]
    assert len(memory.search("code", user=devmem.ANY)) == len(memory.list(user=devmem.ANY)) == len(memory) == 2
    assert (memory.count(), memory.count(user="ann"), memory.count(user=devmem.ANY)) == (1, 1, 2)


def test_a_filter_says_what_the_arguments_cannot(memory: devmem.Memory) -> None:
    memory.add("The code is 1.", user="ann", trust=0.2)
    memory.add("The code is 2.")
    both = devmem.Filter(include_unscoped=True)
    assert len(memory.search("code", user="ann", where=both)) == 2
    assert texts(memory.search("code", user="ann", where=devmem.Filter(include_unscoped=True, min_trust=0.5))) == [
        "The code is 2."
    ]
    with pytest.raises(ScopeError):
        memory.search("code", user="ann", where=devmem.Filter(scope=devmem.Scope(user="bob")))


def test_a_store_that_takes_nothing_says_why(tmp_path: Path) -> None:
    config = {"file_sources": [{"path": str(tmp_path)}], "index_path": str(tmp_path / "index.db")}
    with devmem.open({"type": "file", "config": config}) as memory, pytest.raises(NotStoredError):
        memory.add("one")


async def _asked(memory: devmem.Memory) -> list[object]:
    async with memory:
        item_id = await memory.aadd("The code is 4711.")
        found = await memory.asearch("code")
        changed = await memory.aupdate(item_id, "The code is 4712.")
        listed = [record.text async for record in memory]
        return [found[0].text, changed.text, listed, await memory.acount(), (await memory.aforget(item_id)).items]


def test_the_async_twins_do_the_same() -> None:
    done = asyncio.run(_asked(devmem.open(":memory:", embedding=None)))
    assert done == ["The code is 4711.", "The code is 4712.", ["The code is 4712."], 1, 1]


def test_a_repr_says_where_and_how_much(memory: devmem.Memory) -> None:
    memory.add("one")
    assert repr(memory) == "<Memory ':memory:': simple, 1 item>"
    assert repr(memory.scoped(user="ann", agent="a")) == "<Memory ':memory:' of user 'ann', agent 'a': simple, 0 items>"
    assert repr(memory.list()[0]).startswith("<MemoryItem 'one', id ")
