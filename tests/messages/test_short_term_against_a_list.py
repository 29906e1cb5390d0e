"""Whatever is done to a short-term memory, it returns what a plain list would."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from devmem.messages import Message, Role, ShortTermMemory
from tests.generated import examples
from tests.strategies import messages

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
