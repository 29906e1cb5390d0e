"""Facts with a key, which a rule or a language model names, have one value at a time, and a history."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

import devmem
from devmem import Caller, MemoryContentSnapshot, MemoryManager, MemoryWritePayload, Scope
from devmem.config import Attachment
from devmem.errors import ChatModelError
from devmem.stores import KeyedMemory, MemoryQuery, WriteStatus
from devmem.testing import ManualClock
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.simple import SimpleConfig, SimpleMemory
from tests.conftest import MakeStore
from tests.models.service import ChatService, Reply, answering

KEYS = [
    {"pattern": r"(?i)my (?P<what>diet|address) is", "key": "user.{what}"},
    {"pattern": r"我(?P<what>住)在", "key": "user.{what}"},
]


@pytest.fixture
def store(make_store: MakeStore) -> SimpleMemory:
    return make_store(SimpleMemory, memory_path="notes.db", keys=KEYS)


def said(text: str, *, user: str = "ann", run: str = "1") -> MemoryWritePayload:
    return MemoryWritePayload(inputs_text=text, scope=Scope(user=user, run=run))


def test_a_pattern_names_the_fact(store: SimpleMemory) -> None:
    """The newer value replaces the older one of the same user, in whatever run it was said."""
    store.update(said("My diet is vegan."))
    store.update(said("My address is Elm Street 5."))
    store.update(said("My diet is pasta.", user="bob"))
    outcome = store.update(said("By the way, MY DIET IS vegetarian now.", run="2"))
    assert outcome.status is WriteStatus.SUPERSEDED
    kept = {(item.scope.user, item.metadata["key"]): item.content_summary for item in store.scan()}
    assert len(kept) == 3
    assert "vegetarian" in kept["ann", "user.diet"]
    assert "Elm Street" in kept["ann", "user.address"]
    assert "pasta" in kept["bob", "user.diet"]


def test_the_older_value_stays_in_the_history(store: SimpleMemory) -> None:
    """And what has no key stays beside everything."""
    store.update(said("我住在北京。"))
    store.update(said("今天下雨。"))
    outcome = store.update(said("现在我住在上海了。"))
    assert outcome.item_id is not None
    assert store.count() == 2
    with devmem.open(store.info().location) as memory:
        texts = [version.item.text for version in memory.history(outcome.item_id)]
    assert ["北京" in texts[0], "上海" in texts[-1]] == [True, True]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"pattern": "(", "key": "x"}, "not a regular expression"),
        ({"pattern": "a", "key": "{what}"}, "its groups: none"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(rule: dict[str, str], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        SimpleConfig.model_validate({"keys": [rule]})


def test_a_key_of_a_memory_is_within_its_scope() -> None:
    """Other users have their own value of it, and a blank key is refused."""
    with devmem.open(":memory:", embedding=None) as memory:
        first = memory.add("Ann eats everything.", key="diet", user="ann")
        other = memory.add("Bob eats fish.", key="diet", user="bob")
        assert memory.add("Ann is a vegan.", key="diet", user="ann") == first != other
        assert [record.text for record in memory.list(user=devmem.ANY)] == ["Ann is a vegan.", "Bob eats fish."]
        with pytest.raises(ValueError, match="`key` is empty"):
            memory.add("Nothing.", key=" ")
        with pytest.raises(ValueError, match="`id` and `key`"):
            memory.add("Nothing.", key="a", id="b")


def by_agent(text: str, agent: str) -> MemoryWritePayload:
    return MemoryWritePayload(inputs_text=text, scope=Scope(user="ann"), caller=Caller(agent=agent))


def test_facts_of_two_agents_are_two(store: SimpleMemory) -> None:
    """The items of a workflow are bound to no agent, and still each agent has its own facts and its own votes."""
    store.update(by_agent("My diet is vegan.", "a1"))
    store.update(by_agent("My diet is fish.", "a2"))
    assert store.update(by_agent("My diet is fruit.", "a1")).status is WriteStatus.SUPERSEDED
    store.update(by_agent("I vote yes.", "a1"))
    assert store.update(by_agent("I vote yes.", "a2")).status is WriteStatus.STORED
    texts = sorted((str(item.metadata["agent"]), item.content_summary) for item in store.scan())
    assert [(agent, text.removeprefix("Input: ")) for agent, text in texts] == [
        ("a1", "I vote yes."),
        ("a1", "My diet is fruit."),
        ("a2", "I vote yes."),
        ("a2", "My diet is fish."),
    ]
    votes = [hit for hit in store.search(MemoryQuery(text="vote yes", limit=9)) if "vote" in hit.item.content_summary]
    assert sorted(str(hit.item.metadata["agent"]) for hit in votes) == ["a1", "a2"]
    assert [hit.same_as for hit in votes] == [(), ()]


TYPES: list[type[KeyedMemory]] = [SimpleMemory, BlackboardMemory]
Open = Callable[..., KeyedMemory]
FAILING = Reply(body={"error": {"message": "no"}}, status=400)


@pytest.fixture
def opened(make_store: MakeStore, service: ChatService) -> Open:
    def opened(kind: type[KeyedMemory] = SimpleMemory, **config: Any) -> KeyedMemory:
        llm = {"model": "m", "api_key": "k", "base_url": service.address}
        return make_store(kind, **{"memory_path": None, "key_llm": llm, **config})

    return opened


def key(name: str | None) -> Reply:
    return answering(f"```json\n{json.dumps({'key': name})}\n```")


def eats(text: str, user: str = "ann") -> MemoryWritePayload:
    return MemoryWritePayload(
        inputs_text=text, output_snapshot=MemoryContentSnapshot(text="noted"), scope=Scope(user=user)
    )


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_the_model_names_the_fact(kind: type[KeyedMemory], service: ChatService, opened: Open) -> None:
    """The newer value replaces the older one of the same user; each write asks once, and shows the keys in use."""
    service.script[:] = [key("User.Diet"), key("user.diet"), key("user.diet"), key(None)]
    store = opened(kind)
    store.update(eats("I eat no meat."))
    store.update(eats("I eat fish.", user="bob"))
    assert store.update(eats("I eat meat again.")).status is WriteStatus.SUPERSEDED
    assert store.update(eats("What a day!")).status is WriteStatus.STORED
    kept = [(item.scope.user, item.metadata.get("key")) for item in store.recent(9)]
    assert kept == [("ann", None), ("ann", "user.diet"), ("bob", "user.diet")]
    assert len(service.requests) == 4
    instructions = [" ".join(m["content"] for m in one["messages"][:-1]) for one in service.requests]
    assert ["Keys in use" in text for text in instructions] == [False, False, True, True]
    assert "do not answer" in instructions[0].lower()


@pytest.mark.parametrize("reply", [FAILING, answering("user.diet"), key("x" * 200)])
def test_a_failing_model_costs_the_key_alone(reply: Reply, service: ChatService, opened: Open) -> None:
    """The manager reports it like any other failure of a store."""
    service.script[:] = [reply]
    store = opened()
    manager = MemoryManager([Attachment(name="facts")], {"facts": store})
    result = manager.update(eats("I eat no meat."))
    assert [write.outcome.status for write in result.writes] == [WriteStatus.STORED]
    assert "stored without a key" in result.writes[0].outcome.reason
    assert [type(failure.error) for failure in result.failures] == [ChatModelError]
    assert [item.metadata.get("key") for item in store.recent(9)] == [None]
    assert manager.unsaved == 0


def test_a_model_that_is_down_is_not_asked_with_every_write(
    service: ChatService, opened: Open, clock: ManualClock
) -> None:
    """It backs off, and is asked again later."""
    service.script[:] = [FAILING, key("user.diet")]
    store = opened()
    assert all(store.update(eats(f"I eat {what}.")).failure is not None for what in ("meat", "fish", "rice"))
    assert len(service.requests) == 1
    clock.advance(300)
    assert store.update(eats("I eat tofu.")).failure is None
    assert store.count() == 4


def test_rules_go_before_the_model(service: ChatService, opened: Open) -> None:
    """A text that a rule matches is not sent to it."""
    store = opened(keys=[{"pattern": "(?i)my diet is", "key": "user.diet"}])
    store.update(eats("My diet is vegan."))
    assert store.recent(1)[0].metadata["key"] == "user.diet"
    assert service.requests == []


def test_the_model_chooses_from_given_names(service: ChatService, opened: Open) -> None:
    """Any other name is not a key."""
    service.script[:] = [key("user.diet"), key("user.shoes")]
    store = opened(key_names=["user.diet", "user.city"])
    assert store.update(eats("I eat no meat.")).failure is None
    assert "cannot be one" in store.update(eats("I wear boots.")).reason
    assert "user.city" in service.requests[0]["messages"][0]["content"] + service.requests[0]["messages"][1]["content"]
