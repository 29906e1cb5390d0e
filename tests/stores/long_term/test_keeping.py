"""Whose a role's messages are, which of them are kept, and what becomes of them when they change."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from devmem import Scope
from devmem.errors import CollectionError
from devmem.messages import AIMessage, Message, UserMessage
from devmem.testing import HashEmbedder

from .conftest import AngleEmbedder, OpenStore


class Review:
    """An action."""


IDEA = "Write a cli snake game, said at 0 degrees"


def contents(found: Sequence[Message]) -> list[str]:
    return [message.content for message in found]


def test_roles_and_users_are_apart(open_store: OpenStore) -> None:
    store = open_store(embedder=AngleEmbedder())
    idea = UserMessage(IDEA)
    ann = store.recover("writer", scope=Scope(user="ann"))
    for role in (ann, store.recover("writer", scope=Scope(user="bob")), store.recover("editor")):
        assert role.find_news([idea]) == [idea]
        assert role.add(idea)
    assert store.recover("writer", scope=Scope(user="ann")) is ann
    assert ann.clear() == 1
    assert store.count() == 2


def test_a_role_of_all_users_reaches_what_is_one_users(open_store: OpenStore) -> None:
    store = open_store()
    for user in ("ann", "bob"):
        store.recover("writer", scope=Scope(user=user)).add_batch(
            [UserMessage(f"{user} {n}", id=f"{user} {n}") for n in range(3)]
        )
    everyone = store.recover("writer")
    assert everyone.count() == 6
    assert not everyone.add(UserMessage("ann 0", id="ann 0"))
    assert store.delete(ids=["nothing"]) == 0
    assert everyone.delete("ann 0")
    assert everyone.update(UserMessage("bob changed", id="bob 1"))
    assert store.count() == 5
    assert store.trim(keep=4) == 1
    assert everyone.count() == 4
    again = open_store()
    assert contents(again.recover("writer", scope=Scope(user="ann")).get()) == ["ann 2"]
    assert contents(again.recover("writer", scope=Scope(user="bob")).get()) == ["bob 0", "bob 2", "bob changed"]
    assert contents(again.recover("writer").get()) == ["ann 2", "bob 0", "bob 2", "bob changed"]
    assert everyone.clear() == 4


def test_string_is_one_action_everywhere(open_store: OpenStore) -> None:
    """`watch="WriteDesign"` was taken for eleven actions of one letter."""
    store = open_store(watch="WritePlan")
    assert store.config.watch == ["WritePlan"]
    role = store.recover("a", watch="WriteDesign")
    role.add(UserMessage("a design", cause_by="WriteDesign"))
    role.add(UserMessage("a plan", cause_by="WritePlan"))
    assert [item.content_summary for item in store.recent(5)] == ["a design"]


def test_only_what_is_watched_is_kept_for_long(open_store: OpenStore) -> None:
    store = open_store(watch=["WriteCode", "metagpt.actions.WritePlan"])
    role = store.recover("engineer")
    for name in ("my.actions.WriteCode", "WriteCode", "metagpt.actions.WritePlan", "WritePlan", "my.WritePlan", ""):
        role.add(AIMessage(name, cause_by=name))
    assert role.count() == 6
    kept = ["my.actions.WriteCode", "WriteCode", "metagpt.actions.WritePlan"]
    assert contents(open_store().recover("engineer").get()) == kept
    role.watch([Review])
    role.add_batch([AIMessage("a", cause_by=Review), AIMessage("b", cause_by="WriteCode")])
    assert contents(open_store().recover("engineer").get()) == [*kept, "a"]


def test_the_newest_are_at_hand(open_store: OpenStore) -> None:
    store = open_store(short_term=3)
    role = store.recover("r")
    role.add_batch([UserMessage(str(n), cause_by=f"action {n % 2}") for n in range(7)])
    assert contents(role.get()) == contents(open_store(short_term=3).recover("r").get()) == ["4", "5", "6"]
    assert contents(role.get_by_action("action 0")) == ["4", "6"]
    assert role.trim(keep=1) == 2
    assert store.count() == 7


def test_a_changed_message_is_changed_in_both_memories(open_store: OpenStore) -> None:
    for dedupe in ("id", "content"):
        store = open_store(dedupe=dedupe)
        role = store.recover(dedupe, ["keep"])
        role.add_batch([AIMessage("draft", id="1", cause_by="keep"), AIMessage("passing", id="2")])
        assert role.update(AIMessage("final", id="1", cause_by="keep"))
        assert role.update(AIMessage("final", id="1", cause_by="keep", metadata={"n": 1}))
        assert role.update(AIMessage("passing by", id="2"))
        assert not role.update(AIMessage("nobody", id="3", cause_by="keep"))
        assert not role.update(AIMessage("nobody", id="3"))
        (kept,) = open_store().recover(dedupe).get()
        assert (kept.content, kept.metadata) == ("final", {"n": 1})
        assert contents(role.get()) == ["final", "passing by"]
        assert role.update(AIMessage("final", id="1", cause_by="other"))
        assert [message.cause_by for message in open_store().recover(dedupe).get()] == ["other"]
        assert role.update(AIMessage("passing, kept now", id="2", cause_by="keep"))
        assert contents(open_store().recover(dedupe).get()) == ["final", "passing, kept now"]
        store.close()
        with pytest.raises(CollectionError):
            role.update(AIMessage("lost", id="1", cause_by="keep"))
        assert contents(role.get()) == ["final", "passing, kept now"]


def test_many_threads(open_store: OpenStore) -> None:
    """A message that all of them add at once is new to one of them."""
    store = open_store(embedder=HashEmbedder())
    shared = [UserMessage(f"message number {n}", cause_by=f"action {n % 2}") for n in range(30)]
    roles = [store.recover("r", ["action 1"]) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        new = list(pool.map(lambda role: [role.add(message) for message in shared], roles))
    assert [sum(told) for told in zip(*new, strict=True)] == [1] * len(shared)
    assert set(store.recover("r").get()) == set(shared)
    assert store.count() == 15
