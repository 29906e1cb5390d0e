"""Short-term memory: every look-up, each message once, nothing shared, nothing stale."""

from __future__ import annotations

import logging

import pytest
from pydantic import BaseModel

from devmem.errors import MessageError
from devmem.messages import USER_REQUIREMENT, AIMessage, Message, Role, ShortTermMemory, UserMessage, register_payload


@register_payload("short-term test tasks")
class Tasks(BaseModel):
    names: list[str]


def contents(found: list[Message]) -> list[str]:
    return [message.content for message in found]


@pytest.fixture
def three() -> list[Message]:
    return [
        UserMessage("ask for a plan", source="ann", created_at=10.0, id="1"),
        AIMessage("the plan", source="bob", cause_by="WritePlan", created_at=20.0, id="2"),
        AIMessage("the code", source="bob", cause_by="WriteCode", created_at=30.0, id="3"),
    ]


@pytest.fixture
def memory(three: list[Message]) -> ShortTermMemory:
    made = ShortTermMemory()
    assert made.add_batch(three) == three
    return made


def test_look_ups(memory: ShortTermMemory, three: list[Message]) -> None:
    one, two, code = three
    assert memory.get() == memory.get(0) == three
    assert memory.get(2) == [two, code]
    assert [memory.get_by_position(at) for at in (0, 2, -1, -3, 3, -4)] == [one, code, code, one, None, None]
    assert memory.get_by_id("2") is two
    assert memory.get_by_id("nobody") is None
    assert memory.get_by_role(Role.ASSISTANT) == memory.get_by_source("bob") == [two, code]
    assert memory.get_by_role("tool") == memory.get_by_source("nobody") == []
    assert memory.get_by_time(after=20.0) == [two, code]
    assert memory.get_by_time(before=20.0) == [one]
    assert memory.get_by_time(after=11.0, before=30.0) == [two]
    assert memory.get_by_content("nowhere") == []
    assert one in memory
    assert "1" in memory
    assert 1 not in memory
    assert "nobody" not in memory
    assert bool(ShortTermMemory())


def test_the_same_words_are_taken_once_where_that_is_wanted() -> None:
    """M6: the caller's message stays as it is, and metadata do not make the same words new."""
    memory = ShortTermMemory(dedupe="content")
    one = Message("x", metadata={"n": 1})
    before = one.id
    assert memory.add(one)
    assert one.id == before
    assert not memory.add(Message("x", metadata={"n": 2}))
    assert not memory.add(one)
    assert memory.add(Message("x", source="somebody else"))
    assert memory.delete(one)
    assert memory.add(Message("x"))


def test_a_recovered_memory_is_equal(memory: ShortTermMemory, three: list[Message]) -> None:
    """The steps of MetaGPT's `serialize_deserialize/test_memory`, and of its team's test after recovery."""
    memory.add(AIMessage("typed", cause_by="WriteTasks", instruct_content=Tasks(names=["a", "b"]), source="pm"))
    loaded = ShortTermMemory.load(memory.dump())
    assert loaded.get() == memory.get()
    assert (loaded.count(), loaded.actions()) == (4, memory.actions())
    assert [message.cause_by for message in loaded.get()] == [message.cause_by for message in memory.get()]
    (typed,) = loaded.get(1)
    assert typed.instruct_content == Tasks(names=["a", "b"])
    assert loaded.dump() == memory.dump()


def test_what_is_no_message_is_refused_before_anything_is_taken(three: list[Message]) -> None:
    """M7: a None leaves the memory as it was."""
    memory = ShortTermMemory()
    with pytest.raises(MessageError, match="NoneType"):
        memory.add(None)  # type: ignore[arg-type]
    with pytest.raises(MessageError, match="NoneType"):
        memory.add_batch([*three, None])  # type: ignore[list-item]
    with pytest.raises(MessageError, match="NoneType"):
        memory.find_news([None])  # type: ignore[list-item]
    assert memory.count() == 0


def test_metagpts_memory_is_read(caplog: pytest.LogCaptureFixture) -> None:
    """`storage` and the index beside it; with `ignore_id` every message has the same id there."""
    stored = (
        '{"storage": [{"id": "0", "content": "a", "role": "user", "cause_by": "x.Y", "sent_from": "ann"},'
        ' {"id": "0", "content": "b", "role": "assistant"}], "index": {"x.Y": []}, "ignore_id": %s}'
    )
    loaded = ShortTermMemory.load(stored % "true")
    assert (contents(loaded.get()), loaded.dedupe) == (["a", "b"], "content")
    assert contents(loaded.get_by_action("x.Y")) == contents(loaded.get_by_source("ann")) == ["a"]
    with caplog.at_level(logging.WARNING):
        assert contents(ShortTermMemory.load(stored % "false").get()) == ["a"]
    assert "1 message(s) stand twice" in caplog.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a memory"),
        ("{}", "not a memory"),
        ('{"messages": 5}', "not a list"),
        ('{"messages": [{"content": "x"}, {"content": 5}]}', "1 of 2 .* message 1"),
        ('{"messages": [], "dedupe": "words"}', "dedupe"),
        ('{"messages": [], "max_messages": "many"}', "max_messages"),
    ],
)
def test_what_is_no_memory(text: str, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        ShortTermMemory.load(text)


def test_news_can_be_what_is_not_among_the_newest_as_in_metagpt() -> None:
    """MetaGPT's `find_news(observed, k)` compares with the last `k` messages; devmem's `k` limits the answer."""
    messages = [Message(f"message {number}", id=str(number)) for number in range(5)]
    memory = ShortTermMemory()
    memory.add_batch(messages)
    new = Message("new", id="new")
    assert memory.find_news([*messages, new], within=2) == [*messages[:3], new]
    assert memory.find_news([*messages, new], k=2, within=2) == [messages[2], new]
    assert memory.find_news([*messages, new], within=99) == [new]
    assert memory.find_news([*messages, new]) == [new]
    with pytest.raises(MessageError, match="negative: -1"):
        memory.find_news([], within=-1)


def test_the_names_of_metagpt_show_everything(memory: ShortTermMemory, three: list[Message]) -> None:
    memory.add(AIMessage("an aside", id="4"))
    assert memory.storage[:3] == three
    assert memory.index == {USER_REQUIREMENT: [three[0]], "WritePlan": [three[1]], "WriteCode": [three[2]]}
    memory.storage.clear()
    memory.index.clear()
    assert memory.count() == 4


def test_no_action_is_not_an_action(memory: ShortTermMemory) -> None:
    memory.add(AIMessage("an aside", id="4"))
    with pytest.raises(TypeError, match=r"get_by_action\(''\)"):
        memory.get_by_action(None)
    assert contents(memory.get_by_action("")) == ["an aside"]
