"""Promises of MetaGPT's RoleZero: when older messages are recalled, by which query, and which ones."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from devmem.errors import MessageError
from devmem.messages import AIMessage, Message, SystemMessage, UserMessage
from devmem_stores.role_zero import RoleZeroMemory
from devmem_stores.role_zero.config import importance_of
from devmem_stores.role_zero.role import RoleMessages
from tests.conftest import MakeStore

from .conftest import OpenStore, fill, ids, said

REQUIREMENT = UserMessage("build a game")


@pytest.mark.parametrize(
    ("k", "last", "count", "looks"),
    [
        (0, REQUIREMENT, 201, False),
        (1, AIMessage("done"), 201, False),
        (1, REQUIREMENT, 199, False),
        (1, REQUIREMENT, 200, False),
        (1, REQUIREMENT, 201, True),
    ],
)
def test_when_it_looks_for_older_messages(
    k: int, last: Message, count: int, looks: bool, open_store: OpenStore
) -> None:
    assert open_store().searches_related(last, count, k=k, window=200, shown=k or 200) is looks


def talk(memory: RoleMessages) -> None:
    memory.add(said(0, "the deadline of the login page is in June"))
    for number in range(1, 6):
        memory.add(said(number, f"small talk about the weather, part {number}"))


def test_get_gives_related_and_newest_messages(memory: RoleMessages) -> None:
    talk(memory)
    memory.add(said(6, "when is the deadline of the login page?"))
    assert ids(memory.get(3))[-3:] == ["m4", "m5", "m6"]
    assert ids(memory.get(3))[0] == "m0"
    recall = memory.recall(3)
    assert (ids(recall.recent), recall.related[0].id) == (["m4", "m5", "m6"], "m0")
    assert recall.query == "when is the deadline of the login page?"
    assert recall.hits[0].similarity is not None
    assert recall.failures == ()


def test_k_is_the_number_of_newest_messages_and_0_the_window(memory: RoleMessages) -> None:
    messages = fill(memory, 5)
    assert ids(memory.get()) == ["m2", "m3", "m4"]
    assert ids(memory.recall(1).recent) == ["m4"]
    assert ids(memory.recall(99).recent) == ids(messages)
    with pytest.raises(MessageError, match="negative: -1"):
        memory.get(-1)


def test_related_messages_are_in_the_order_of_their_time(open_store: OpenStore) -> None:
    """Not in that of their arrival, nor of their score."""
    memory = open_store(memory_k=1, recall="always").role("engineer")
    for time in (30.0, 10.0, 20.0):
        memory.add(UserMessage(f"the build broke, report of {time}", created_at=time, id=f"at {time:g}"))
    memory.add(UserMessage("when did the build break, says which report", created_at=40.0, id="asked"))
    assert ids(memory.get(1)) == ["at 10", "at 20", "at 30", "asked"]


class OwnRules(RoleZeroMemory):
    """Searches where seven messages are asked for, by their number, and finds one of them important."""

    def searches_related(self, last: Message | None, count: int, *, k: int, window: int, shown: int) -> bool:
        assert last is not None
        assert (last.id, count, window, shown) == ("m5", 6, 2, k)
        return k == 7

    def query_text(self, messages: Sequence[Message]) -> str:
        return f"login page {len(messages)}"

    def importance(self, message: Message) -> float:
        return float(message.id == "m3")


def test_a_subclass_has_an_own_query_and_decides_when_to_search(make_store: MakeStore) -> None:
    memory = make_store(OwnRules, memory_k=2).role("engineer")
    talk(memory)
    assert memory.recall(2).query == ""
    assert memory.recall(7).query == "login page 6"


def test_a_subclass_rates_messages(make_store: MakeStore) -> None:
    store = make_store(OwnRules, min_importance=0.5)
    memory = store.role("engineer")
    fill(memory, 5)
    assert [item for item in store.scan() if store.is_important(item)] == store.recent(1, offset=1)


def test_unimportant_messages_are_kept_and_not_recalled(open_store: OpenStore) -> None:
    memory = open_store(memory_k=1, recall="always", min_importance=0.5).role("engineer")
    memory.add(said(0, "the build is green"))
    memory.add(said(1, "green build", metadata={"importance": 0.9}))
    memory.add(said(2, "build log: green, green, green", cause_by="RunCommand", metadata={"importance": 0.1}))
    memory.add(said(3, "ok build"))
    memory.add(said(4, "is the build green?"))
    assert set(ids(memory.recall(1).related)) == {"m0", "m1"}
    assert ids(memory.long_term()) == ["m0", "m1", "m2", "m3"]


def test_how_important_a_message_is() -> None:
    assert importance_of(UserMessage("please build the login page")) == 1.0
    assert importance_of(UserMessage("the output of the build", cause_by="RunCommand")) == 0.8
    assert importance_of(AIMessage("I will build the login page")) == 0.6
    assert importance_of(SystemMessage("You are an engineer.")) == 0.5
    assert importance_of(AIMessage("ok")) == 0.2
    assert importance_of(UserMessage("登录页面的截止日期是六月")) == 1.0
    assert importance_of(AIMessage("ok", metadata={"importance": 0.7})) == 0.7
    assert importance_of(AIMessage("ok", metadata={"importance": True})) == 0.2


def test_what_is_said_again_is_recalled_once(open_store: OpenStore) -> None:
    memory = open_store(memory_k=1, recall="always").role("engineer")
    for number in (0, 2, 4):
        memory.add(said(number, "the build is green"))
    memory.add(said(6, "is the build green?"))
    memory.add(said(8, "is the build green?"))
    assert len(memory.recall(1).related) == 1
    assert memory.count() == 5


def test_messages_can_be_looked_up(memory: RoleMessages) -> None:
    first = said(0, "look at the login page", cause_by="Look", sent_from="Ann")
    memory.add_batch([first, said(1), said(2), said(3, cause_by="Look"), said(4)])
    assert memory.get_by_id("m0") == first
    assert memory.get_by_id("nobody") is None
    assert "m0" in memory
    assert first in memory
    assert "m9" not in memory
    assert 5 not in memory
    assert ids(memory.get_by_role("assistant")) == ["m1", "m3"]
    assert ids(memory.get_by_action("Look")) == ["m0", "m3"]
    assert ids(memory.get_by_actions(["Look", "Nothing"])) == ["m0", "m3"]
    assert ids(memory.try_remember("login")) == ids(memory.get_by_content("login")) == ["m0"]
    assert ids(memory.find_news([said(4), said(5), said(5), said(6)])) == ["m5", "m6"]
    assert ids(memory.find_news([said(5), said(6)], 1)) == ["m6"]
    assert memory.last() == said(4)


def test_forgetting(memory: RoleMessages) -> None:
    fill(memory, 5)
    assert memory.delete(said(0)) is True
    assert memory.delete("m0") is False
    assert ids(memory.history()) == ["m1", "m2", "m3", "m4"]
    assert memory.delete_newest() == said(4)
    assert memory.clear() == 3
    assert memory.delete_newest() is None
    assert memory.last() is None
    assert memory.get(3) == []
    assert bool(memory) is True


def test_many_threads(open_store: OpenStore) -> None:
    store = open_store(memory_k=5, memory_path="roles.db")
    start = threading.Barrier(8)

    def work(thread: int) -> None:
        memory = store.role("engineer")
        start.wait()
        for number in range(10):
            memory.add(UserMessage(f"message {number} of thread {thread}", id=f"{thread}-{number}"))
            memory.add(UserMessage("the same for all", id=f"all-{number}"))
            assert len(memory.recall(5).recent) <= 5

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    memory = store.role("engineer")
    kept = ids(memory.history())
    assert len(kept) == len(set(kept)) == 90
    assert sorted(ids(memory.window()) + ids(memory.long_term())) == sorted(kept)
    with ThreadPoolExecutor(8) as pool:
        deleted = list(pool.map(lambda _: memory.delete_newest(), range(90)))
    assert len({message.id for message in deleted if message}) == 90
    assert memory.count() == 0


def test_news_can_be_compared_with_the_newest_alone(memory: RoleMessages) -> None:
    fill(memory, 4)
    assert ids(memory.find_news([said(0), said(3), said(5)], within=2)) == ["m0", "m5"]
    for numbers in ({"k": -1}, {"within": -1}):
        with pytest.raises(MessageError, match="negative: -1"):
            memory.find_news([said(5)], **numbers)
