"""A language model names the facts that no rule names; where it fails, nothing is lost but the key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from devmem import MemoryContentSnapshot, MemoryManager, MemoryWritePayload, Scope
from devmem.config import Attachment
from devmem.errors import ChatModelError
from devmem.stores import KeyedMemory, WriteStatus
from devmem.testing import ManualClock
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore
from tests.models.service import ChatService, Reply, answering

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


def said(text: str, user: str = "ann") -> MemoryWritePayload:
    return MemoryWritePayload(
        inputs_text=text, output_snapshot=MemoryContentSnapshot(text="noted"), scope=Scope(user=user)
    )


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_the_model_names_the_fact(kind: type[KeyedMemory], service: ChatService, opened: Open) -> None:
    """The newer value replaces the older one of the same user; each write asks once, and shows the keys in use."""
    service.script[:] = [key("User.Diet"), key("user.diet"), key("user.diet"), key(None)]
    store = opened(kind)
    store.update(said("I eat no meat."))
    store.update(said("I eat fish.", user="bob"))
    assert store.update(said("I eat meat again.")).status is WriteStatus.SUPERSEDED
    assert store.update(said("What a day!")).status is WriteStatus.STORED
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
    result = manager.update(said("I eat no meat."))
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
    assert all(store.update(said(f"I eat {what}.")).failure is not None for what in ("meat", "fish", "rice"))
    assert len(service.requests) == 1
    clock.advance(300)
    assert store.update(said("I eat tofu.")).failure is None
    assert store.count() == 4


def test_rules_go_before_the_model(service: ChatService, opened: Open) -> None:
    """A text that a rule matches is not sent to it."""
    store = opened(keys=[{"pattern": "(?i)my diet is", "key": "user.diet"}])
    store.update(said("My diet is vegan."))
    assert store.recent(1)[0].metadata["key"] == "user.diet"
    assert service.requests == []


def test_the_model_chooses_from_given_names(service: ChatService, opened: Open) -> None:
    """Any other name is not a key."""
    service.script[:] = [key("user.diet"), key("user.shoes")]
    store = opened(key_names=["user.diet", "user.city"])
    assert store.update(said("I eat no meat.")).failure is None
    assert "cannot be one" in store.update(said("I wear boots.")).reason
    assert "user.city" in service.requests[0]["messages"][0]["content"] + service.requests[0]["messages"][1]["content"]
