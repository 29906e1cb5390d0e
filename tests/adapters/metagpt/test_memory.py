"""MetaGPT's memories of a role: what MetaGPT's own do, and what they got wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metagpt.actions import Action, UserRequirement, WritePRD
from metagpt.actions.action_node import ActionNode
from metagpt.memory import Memory
from metagpt.roles.role import Role, RoleContext
from metagpt.schema import AIMessage, Message, UserMessage
from pydantic import BaseModel

import devmem
from devmem.adapters.metagpt import DevmemLongTermMemory, DevmemMemory, DevmemRoleZeroMemory, to_devmem, to_metagpt
from devmem.errors import MessageError
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Talks
from tests.adapters.pages import run_example


class Review(BaseModel):
    verdict: str


class Verdict(Message):
    """A class of messages of a program's own."""

    sure: bool = False


def design() -> Message:
    made = ActionNode.create_model_class("design", {"name": (str, ...), "files": (list[str], ...)})
    return Message(
        content="Two files.",
        role="Architect",
        cause_by=WritePRD,
        sent_from="Bob",
        send_to={"Alex"},
        instruct_content=made(name="snake", files=["a.py", "b.py"]),
    )


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "team.db")


def opened_again(memory: DevmemMemory) -> DevmemMemory:
    """Return the same role's memory as another process would have it."""
    memory.close()
    return type(memory)(place=memory.place, role=memory.role, options=memory.options)


def test_the_methods_of_metagpts_memory() -> None:
    memory = DevmemMemory()
    one, two = Message(content="first text", role="user1"), Message(content="second text", role="user2")
    memory.add(one)
    assert memory.delete_newest() == one
    assert memory.delete_newest() is None
    memory.add_batch([one, two])
    assert memory.count() == 2
    assert memory.storage == [one, two]
    assert len(memory.index[one.cause_by]) == 2
    assert memory.get_by_role("user1") == [one]
    assert memory.get_by_content("text") == memory.try_remember("text") == [one, two]
    assert memory.get_by_action(UserRequirement) == memory.get_by_actions([UserRequirement]) == [one, two]
    assert memory.get(k=1) == [two]
    assert memory.get(k=5) == [one, two]
    assert memory.get_by_position(0) == one
    assert memory.get_by_position(2) is None
    news = Message(content="third")
    assert memory.find_news([news, one, news]) == [news]
    assert memory.find_news([one, two], k=1) == [one]
    assert memory.delete(one)
    assert not memory.delete(one)
    assert memory.get() == memory.storage == [two]
    memory.clear()
    assert (memory.count(), memory.storage, dict(memory.index)) == (0, [], {})


def test_messages_are_the_same_objects_in_a_process_and_equal_in_the_next(place: str) -> None:
    memory = DevmemMemory(place=place, role="Bob")
    said = [design(), AIMessage("An answer."), UserMessage("A question."), Verdict(content="Yes.", sure=True)]
    memory.add_batch(said)
    assert all(one is other for one, other in zip(memory.get(), said, strict=True))
    again = opened_again(memory).get()
    assert again == said
    assert [type(message) for message in again] == [type(message) for message in said]
    assert again[0].instruct_content.files == ["a.py", "b.py"]
    assert json.loads(again[0].dump()) == json.loads(said[0].dump())


@given(
    content=st.text(),
    role=st.text(),
    sent_from=st.text(),
    cause_by=st.sampled_from([UserRequirement, WritePRD, "x.RunCode", "plain"]),
    send_to=st.sets(st.text(min_size=1), max_size=3),
    made=st.sampled_from([Message, Verdict]),
)
def test_any_message_comes_back_as_it_was(
    content: str, role: str, sent_from: str, cause_by: object, send_to: set[str], made: type[Message]
) -> None:
    said = made(content=content, role=role, sent_from=sent_from, cause_by=cause_by, send_to=send_to)
    back = to_metagpt(devmem.messages.load_message(devmem.messages.dump_message(to_devmem(said))))
    assert back == said
    assert type(back) is made


def test_nothing_is_imported_or_evaluated_that_a_stored_message_names(place: str) -> None:
    stored = to_devmem(design())
    form: dict[str, Any] = dict(stored.instruct_content.extra)  # type: ignore[union-attr]
    form["mapping"] = {"name": "(__import__('os').abort(), Ellipsis)", "files": "(list[str], Ellipsis)"}
    payload = devmem.messages.PayloadData(name="design", value={"name": "x", "files": ["a"]}, extra=form)
    assert to_metagpt(devmem.messages.Message("x", instruct_content=payload)).instruct_content.name == "x"
    unknown = devmem.messages.PayloadData(name="Gone", value={"a": 1}, extra={"module": "no.such.module"})
    assert to_metagpt(devmem.messages.Message("x", instruct_content=unknown)).instruct_content.a == 1
    odd = devmem.messages.Message("x", metadata={"metagpt": {"class": "Gone", "module": "os", "role": "Architect"}})
    assert (type(to_metagpt(odd)), to_metagpt(odd).role) == (Message, "Architect")


def test_what_is_no_message_is_refused_and_nothing_is_kept() -> None:
    memory = DevmemMemory()
    with pytest.raises(MessageError, match="NoneType"):
        memory.add_batch([Message(content="one"), None])
    assert memory.count() == len(memory.storage) == 0


def test_with_ignore_id_the_same_words_are_kept_once_and_the_caller_keeps_the_id() -> None:
    memory = DevmemMemory(ignore_id=True)
    one, other = Message(content="The same.", id="1"), Message(content="The same.", id="2")
    memory.add_batch([one, other])
    assert memory.get() == [one]
    assert other.id == "2"
    assert memory.delete(other)
    assert memory.count() == 0


def test_roles_users_and_sessions_of_one_file_are_apart(place: str) -> None:
    said = Message(content="For Bob of Ann.")
    DevmemMemory(place=place, role="Bob", user="ann").add(said)
    assert DevmemMemory(place=place, role="Bob", user="ann").get() == [said]
    for other in ({"role": "Bob"}, {"role": "Eve", "user": "ann"}, {"role": "Bob", "user": "ann", "session": "s"}):
        assert DevmemMemory(place=place, **other).count() == 0


def test_what_another_process_writes_or_erases_is_seen_at_once(memory: devmem.Memory) -> None:
    mine, theirs = DevmemMemory.over(memory, "Bob"), DevmemMemory.over(memory, "Bob")
    said = Message(content="Ann's number is 5.")
    mine.add(said)
    assert theirs.get() == [said]
    memory.forget(where=devmem.Filter(scope=devmem.Scope(agent="Bob")))
    assert mine.get() == mine.storage == theirs.get() == []


def test_metagpts_own_json_is_taken_and_written(place: str) -> None:
    memory = DevmemMemory(place=place, role="Bob")
    memory.add_batch([design(), AIMessage("An answer.")])
    form = json.loads(memory.model_dump_json())
    assert Memory(**form).count() == 2
    restored = DevmemMemory(**form)
    assert [message.id for message in restored.get()] == [message.id for message in memory.get()]
    assert restored.count() == len(restored.storage) == 2


class Greet(Action):
    name: str = "Greet"

    async def run(self, history: list[Message]) -> str:
        return f"Hello, {history[-1].content} ({len(history)})"


def test_a_role_of_metagpt_takes_up_what_it_remembers(place: str) -> None:
    for said, heard in (("Ann", "Hello, Ann (1)"), ("Eve", "Hello, Eve (3)")):
        role = Role(name="Bob", profile="Host", actions=[Greet()], watch=[UserRequirement])
        role.rc.memory = DevmemMemory(place=place, role="Bob")
        assert asyncio.run(role.run(said)).content == heard
        assert role.rc.memory.get()[-1].role == "Host"
        assert role.model_dump()["rc"]["memory"]["storage"][-1]["content"] == heard
    assert DevmemMemory(place=place, role="Bob").count() == 4


class TestRoleZero:
    @pytest.fixture
    def roles(self, memory: devmem.Memory) -> DevmemRoleZeroMemory:
        made = DevmemRoleZeroMemory.over(memory, "Alex")
        made.add(UserMessage("The deadline of the login page is 26 June."))
        made.add_batch([AIMessage(f"Step {at} is done.") for at in range(5)])
        return made

    def test_a_requirement_recalls_what_left_the_window(self, roles: DevmemRoleZeroMemory) -> None:
        roles.add(UserMessage("When is the deadline of the login page?"))
        texts = [message.content for message in roles.get(2)]
        assert texts[0] == "The deadline of the login page is 26 June."
        assert texts[-2:] == ["Step 4 is done.", "When is the deadline of the login page?"]
        assert len(texts) == len(set(texts))

    def test_it_is_made_with_metagpts_arguments(self, tmp_path: Path) -> None:
        before = Memory()
        before.add_batch([Message(content=f"message {at}") for at in range(4)])
        arguments: dict[str, Any] = {"persist_path": str(tmp_path), "collection_name": "Alex", "memory_k": 2}
        memory = DevmemRoleZeroMemory(**before.model_dump(), **arguments, similarity_top_k=1, use_llm_ranker=False)
        assert memory.count() == 4
        assert RoleContext(memory=memory).memory is memory
        memory.close()
        assert DevmemRoleZeroMemory(**arguments).count() == 4


class Watching:
    watch = frozenset({"metagpt.actions.add_requirement.UserRequirement"})


class TestLongTerm:
    def test_what_is_watched_is_kept_and_news_are_what_is_not_known(self, place: str) -> None:
        memory = DevmemLongTermMemory(place=place)
        memory.recover_memory("Bob (Product Manager)", Watching)
        assert not memory.is_initialized
        idea = Message(content="Write a cli snake game", role="User", cause_by=UserRequirement)
        aside = Message(content="One moment.", role="Architect", cause_by=WritePRD)
        assert memory.find_news([idea]) == [idea]
        memory.add_batch([idea, aside, idea])
        assert memory.get() == [idea, aside]
        same = Message(content="write a CLI snake game", role="User", cause_by=UserRequirement)
        assert memory.find_news([same, aside]) == []
        memory.persist()
        memory.close()
        again = DevmemLongTermMemory(place=place)
        again.recover_memory("Bob (Product Manager)", Watching)
        assert again.is_initialized
        assert again.get() == [idea]
        assert again.find_news([same, aside]) == [aside]
        assert again.delete(idea)
        assert again.find_news([same]) == [same]

    async def test_news_and_similar_messages_may_be_awaited(self, place: str) -> None:
        memory = DevmemLongTermMemory(place=place, role="Bob")
        idea = Message(content="Write a snake game")
        memory.add(idea)
        assert await memory.find_news([idea, Message(content="Write a web game")], k=1) != [idea]
        assert await memory.search_similar(Message(content="write a snake GAME")) == [idea]


class TestContract(Talks, Histories):
    """Of a role's memory without a user, which no other memory's search sees unless everybody's is meant."""

    keeps_results = True
    page, hands_on = "metagpt", "host ids"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        for asked, answer in exchanges:
            DevmemMemory.over(memory, "Bob").add_batch([UserMessage(asked), AIMessage(answer)])

    @pytest.fixture
    def memory(self, whole: devmem.Memory) -> devmem.Memory:
        return whole

    def talk(self, memory: devmem.Memory) -> None:
        result = Message(content=RESULT, role="user", cause_by="metagpt.actions.run_code.RunCode")
        DevmemMemory.over(memory, "Bob").add_batch([UserMessage(QUESTION), result, AIMessage(ANSWER)])

    def test_a_tools_result_is_found_by_its_text_or_not_kept(self, memory: devmem.Memory) -> None:
        self.talk(memory)
        assert RESULT in [hit.text for hit in memory.search("the pier", user=devmem.ANY)]


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from tools.hosts.shims.metagpt import prepare; prepare()"
    (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    assert run_example("metagpt", tmp_path).splitlines()[-1] == "The launch is on May 5th."
