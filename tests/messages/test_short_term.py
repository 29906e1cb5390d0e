"""Short-term memory: every look-up, each message once, nothing shared, nothing stale."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

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


def test_the_life_of_a_memory(three: list[Message]) -> None:
    """The steps of MetaGPT's `test_memory`."""
    one, two, three_ = three
    memory = ShortTermMemory()
    assert memory.add(one)
    assert memory.count() == 1
    assert memory.delete_newest() is one
    assert memory.count() == 0
    memory.add_batch([one, two])
    assert (memory.count(), len(memory.actions())) == (2, 2)
    assert contents(memory.get_by_role("user")) == ["ask for a plan"]
    assert contents(memory.get_by_content("plan")) == ["ask for a plan", "the plan"]
    assert memory.get_by_action(USER_REQUIREMENT) == [one]
    assert memory.get_by_actions({USER_REQUIREMENT, "WritePlan"}) == [one, two]
    assert contents(memory.try_remember("ask")) == ["ask for a plan"]
    assert len(memory.get(k=1)) == 1
    assert len(memory.get(k=5)) == 2
    assert memory.find_news([three_]) == [three_]
    assert memory.delete(two)
    assert memory.count() == 1
    assert memory.clear() == 1
    assert (memory.count(), memory.actions()) == (0, [])


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


def test_a_message_is_taken_once_and_that_is_said(memory: ShortTermMemory, three: list[Message]) -> None:
    assert not memory.add(three[0])
    assert not memory.add(Message("other words", id="1"))
    assert memory.add_batch([three[1], Message("new", id="4"), Message("new", id="4")]) == [Message("", id="4")]
    assert memory.count() == 4


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


def test_messages_keep_their_class_through_json(memory: ShortTermMemory, three: list[Message]) -> None:
    """M1: what was stored is still known after recovery, whatever its class; a look-up gives the very object."""
    loaded = ShortTermMemory.load(memory.dump())
    assert all(kept.identical(message) for kept, message in zip(loaded.get(), three, strict=True))
    assert loaded.find_news(three) == []
    assert not loaded.add(three[1])
    assert loaded.get_by_action("WritePlan")[0] is loaded.get_by_position(1)


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


def test_news_are_given_once(memory: ShortTermMemory, three: list[Message]) -> None:
    """M2: the same message twice among what came in is one, and what is old is no news however small `k` is."""
    new, newer = Message("new", id="4"), Message("newer", id="5")
    observed = [three[0], new, new, newer, Message("again", id="4")]
    assert memory.find_news(observed) == [new, newer]
    assert memory.find_news(observed, k=1) == [newer]
    assert memory.find_news(three, k=1) == []
    assert memory.count() == 3
    by_content = ShortTermMemory(dedupe="content")
    assert contents(by_content.find_news([Message("x"), Message("x"), Message("y")])) == ["x", "y"]


def test_lists_belong_to_the_caller(memory: ShortTermMemory) -> None:
    """M3: an action that nobody took makes no entry, and a changed list changes nothing."""
    assert memory.get_by_action("Nobody") == []
    assert "Nobody" not in memory.actions()
    for given in (
        memory.get_by_action("WritePlan"),
        memory.get_by_role("assistant"),
        memory.get_by_time(),
        memory.get(),
        memory.actions(),
    ):
        given.clear()
    assert (memory.count(), len(memory.get_by_role("assistant")), len(memory.actions())) == (3, 2, 3)


def test_a_changed_message_is_found_under_what_it_is_now(memory: ShortTermMemory) -> None:
    """M4: no index keeps an entry of what a message was."""
    assert memory.update(AIMessage("the new plan", id="2", cause_by="Revise", created_at=40.0))
    assert contents(memory.get()) == ["ask for a plan", "the new plan", "the code"]
    assert memory.get_by_action("WritePlan") == memory.get_by_source("nobody") == []
    assert contents(memory.get_by_action("Revise")) == ["the new plan"]
    assert contents(memory.get_by_time(after=35.0)) == ["the new plan"]
    assert contents(memory.get_by_role("assistant")) == ["the new plan", "the code"]
    assert memory.delete("2")
    assert memory.actions() == [USER_REQUIREMENT, "WriteCode"]
    assert not memory.update(Message("nobody", id="9"))


def test_several_actions_in_the_order_of_the_messages() -> None:
    """M5: however the actions are ordered."""
    memory = ShortTermMemory()
    for n in range(30):
        memory.add(AIMessage(str(n), cause_by=f"action {n % 3}"))
    names = [f"action {n}" for n in range(3)]
    for asked in (names, names[::-1], set(names), [*names, *names]):
        assert contents(memory.get_by_actions(asked)) == [str(n) for n in range(30)]


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


def test_metadata_that_are_added_later_do_not_reach_the_memory(memory: ShortTermMemory) -> None:
    """M8: a prompt with pictures is made from a copy; the message is the same one and no larger."""
    (stored,) = memory.get(1)
    with_pictures = stored.with_metadata(images=["data:image/png;base64,AAAA"])
    assert memory.find_news([with_pictures]) == []
    assert "images" not in memory.dump()
    assert memory.update(with_pictures)
    assert "images" in memory.dump()


def test_the_oldest_go_first() -> None:
    memory = ShortTermMemory(max_messages=3)
    for n in range(10):
        assert memory.add(Message(str(n), cause_by=f"action {n % 2}"))
    assert contents(memory.get()) == ["7", "8", "9"]
    assert contents(memory.get_by_action("action 1")) == ["7", "9"]
    assert memory.count() == 3
    memory.add_batch([Message(str(n)) for n in range(10, 15)])
    assert contents(memory.get()) == ["12", "13", "14"]


def test_trimming(memory: ShortTermMemory) -> None:
    assert memory.trim() == 0
    assert memory.trim(before=20.0) == 1
    assert contents(memory.get()) == ["the plan", "the code"]
    assert memory.trim(keep=1) == 1
    assert contents(memory.get()) == ["the code"]
    assert memory.trim(keep=0) == 1
    assert memory.delete_newest() is None


def test_deleting_what_is_not_there_is_said(memory: ShortTermMemory) -> None:
    assert not memory.delete("nobody")
    assert not memory.delete(Message("x"))
    assert memory.delete("1")
    assert not memory.delete("1")
    assert memory.get_by_position(0) is memory.get_by_id("2")


@pytest.mark.parametrize(
    "make",
    [
        lambda memory: memory.get(-1),
        lambda memory: memory.find_news([], -1),
        lambda memory: memory.trim(keep=-1),
        lambda memory: memory.get_by_role("user1"),
        lambda memory: ShortTermMemory(max_messages=0),
        lambda memory: ShortTermMemory(dedupe="words"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_asked(memory: ShortTermMemory, make: object) -> None:
    with pytest.raises(MessageError):
        make(memory)  # type: ignore[operator]


def test_the_settings_go_through_json() -> None:
    memory = ShortTermMemory(dedupe="content", max_messages=2)
    memory.add_batch([Message("a"), Message("b")])
    loaded = ShortTermMemory.load(memory.dump())
    assert (loaded.dedupe, loaded.max_messages, contents(loaded.get())) == ("content", 2, ["a", "b"])
    assert not loaded.add(Message("a"))
    loaded.add(Message("c"))
    assert contents(loaded.get()) == ["b", "c"]


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


def test_many_threads() -> None:
    """Each message is new to one of them only, and the indexes agree with the row."""
    memory = ShortTermMemory(max_messages=150)
    shared = [Message(str(n), cause_by=f"action {n % 5}") for n in range(300)]

    def work(thread: int) -> int:
        new = 0
        for at, message in enumerate(shared):
            new += memory.add(message)
            if at % 10 == thread:
                memory.delete_newest()
                memory.get_by_action(f"action {thread % 5}")
            memory.get_by_position(at % 7)
        return new

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) >= len(shared)
    kept = memory.get()
    assert len(set(kept)) == len(kept) == memory.count() <= 150
    assert sorted(memory.get_by_actions(memory.actions()), key=kept.index) == kept
    assert sorted(memory.get_by_time(), key=kept.index) == kept


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


def test_one_action_may_be_given_without_a_list() -> None:
    """A string is one action, not its letters."""
    memory = ShortTermMemory()
    memory.add_batch([Message("a", cause_by="Write"), Message("b", cause_by="W"), Message("c", cause_by="Read")])
    assert [message.content for message in memory.get_by_actions("Write")] == ["a"]
    assert [message.content for message in memory.get_by_actions(["Write", "Read"])] == ["a", "c"]


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
