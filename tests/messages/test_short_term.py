"""Short-term memory: every look-up, each message once, nothing shared, nothing stale, as a plain list would have it."""

from __future__ import annotations

import logging

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import BaseModel

from devmem.errors import MessageError
from devmem.messages import USER_REQUIREMENT, AIMessage, Message, Role, ShortTermMemory, UserMessage, register_payload
from tests.generated import examples
from tests.strategies import messages


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


_IDS = st.sampled_from([str(n) for n in range(12)])
_MESSAGES = messages(_IDS)
_LIMIT = 8


class AgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.memory = ShortTermMemory(max_messages=_LIMIT)
        self.expected: list[Message] = []

    @rule(message=_MESSAGES)
    def add(self, message: Message) -> None:
        new = message not in self.expected
        assert self.memory.add(message) is new
        if new:
            self.expected = [*self.expected, message][-_LIMIT:]

    @rule(message=_MESSAGES)
    def update(self, message: Message) -> None:
        there = message in self.expected
        assert self.memory.update(message) is there
        if there:
            self.expected[self.expected.index(message)] = message

    @rule(id_=_IDS)
    def delete(self, id_: str) -> None:
        left = [message for message in self.expected if message.id != id_]
        assert self.memory.delete(id_) is (len(left) < len(self.expected))
        self.expected = left

    @rule()
    def delete_newest(self) -> None:
        newest = self.memory.delete_newest()
        assert newest is (self.expected.pop() if self.expected else None)

    @rule(keep=st.integers(0, _LIMIT))
    def trim(self, keep: int) -> None:
        assert self.memory.trim(keep=keep) == max(0, len(self.expected) - keep)
        self.expected = self.expected[len(self.expected) - min(keep, len(self.expected)) :]

    @precondition(lambda self: self.expected)
    @rule(at=st.integers(0, _LIMIT))
    def trim_by_time(self, at: int) -> None:
        before = self.expected[at % len(self.expected)].created_at
        left = [message for message in self.expected if message.created_at >= before]
        assert self.memory.trim(before=before) == len(self.expected) - len(left)
        self.expected = left

    @rule()
    def reload(self) -> None:
        old = self.expected
        self.memory = ShortTermMemory.load(self.memory.dump())
        self.expected = self.memory.get()
        assert len(old) == len(self.expected)
        assert all(one.identical(other) for one, other in zip(old, self.expected, strict=True))

    @rule(observed=st.lists(_MESSAGES, max_size=5), k=st.integers(0, 3))
    def find_news(self, observed: list[Message], k: int) -> None:
        news = [message for message in dict.fromkeys(observed) if message not in self.expected]
        assert self.memory.find_news(observed, k) == (news[-k:] if k else news)

    @rule(message=_MESSAGES)
    def look_up(self, message: Message) -> None:
        expected = self.expected
        assert self.memory.get_by_action(message.cause_by) == [m for m in expected if m.cause_by == message.cause_by]
        assert self.memory.get_by_source(message.source) == [m for m in expected if m.source == message.source]
        later = [m for m in expected if m.created_at >= message.created_at]
        assert self.memory.get_by_time(after=message.created_at) == later
        assert (message in self.memory) is (message in expected)

    @invariant()
    def the_same_everywhere(self) -> None:
        count = len(self.expected)
        assert self.memory.count() == count
        assert all(one is other for one, other in zip(self.memory.get(), self.expected, strict=True))
        assert [self.memory.get_by_position(at) for at in range(count)] == self.expected
        assert [message for role in Role for message in self.memory.get_by_role(role)] == [
            message for role in Role for message in self.expected if message.role is role
        ]
        assert set(self.memory.actions()) == {message.cause_by for message in self.expected}


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(max_examples=examples(12), stateful_step_count=30)
