"""A role's memory: what MetaGPT's tests of its long-term memory ask for, and what it gets wrong there."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from devmem.errors import CollectionError, MessageError
from devmem.messages import (
    USER_REQUIREMENT,
    Message,
    UserMessage,
    register_payload,
)
from devmem.stores import StoreSetup
from devmem.testing import HashEmbedder, ManualClock
from devmem_stores.long_term import LongTermConfig, LongTermMemory
from tests.strategies import messages

from .conftest import AngleEmbedder, OpenStore

IDEA = "Write a cli snake game, said at 0 degrees"
SAME_IDEA = "A game of snake on the command line, said at 5 degrees"
OTHER_IDEA = "Write a 2048 web game, said at 80 degrees"


@register_payload("long-term test task")
class Task(BaseModel):
    name: str
    steps: list[int]


def contents(found: Sequence[Message]) -> list[str]:
    return [message.content for message in found]


def test_what_is_news(open_store: OpenStore) -> None:
    """The steps of MetaGPT's `test_longterm_memory`, before and after the role is recovered in another process."""
    role = open_store(embedder=AngleEmbedder()).recover("product manager", [USER_REQUIREMENT])
    idea = UserMessage(IDEA)
    assert role.find_news([idea]) == [idea]
    assert role.add(idea)
    assert role.find_news([idea]) == []
    assert role.find_news([UserMessage(SAME_IDEA)]) == []
    other = UserMessage(OTHER_IDEA)
    assert role.find_news([other]) == [other]
    again = open_store(embedder=AngleEmbedder()).recover("product manager", [USER_REQUIREMENT])
    assert again.get() == [idea]
    assert again.find_news([idea, UserMessage(SAME_IDEA), other]) == [other]
    assert again.add(other)
    assert again.clear() == 2
    assert again.find_news([idea, other]) == [idea, other]


def test_what_is_similar(open_store: OpenStore) -> None:
    """As MetaGPT's `test_memory_storage`, with a payload that survives."""
    role = open_store(embedder=AngleEmbedder()).recover("user", [USER_REQUIREMENT])
    assert role.search_similar(UserMessage(IDEA)) == []
    idea = UserMessage(IDEA, instruct_content=Task(name="snake", steps=[1, 2]))
    role.add(idea)
    (found,) = role.search_similar(UserMessage(SAME_IDEA))
    assert asyncio.run(role.asearch_similar(UserMessage(SAME_IDEA))) == [found]
    assert found.identical(idea)
    assert found.instruct_content == Task(name="snake", steps=[1, 2])
    assert role.search_similar(OTHER_IDEA) == []


@given(told=st.lists(messages(), max_size=4, unique=True), by_json=st.booleans())
def test_any_message_is_recovered(told: list[Message], by_json: bool) -> None:
    """Whatever its texts, ids, blocks and metadata are."""
    with tempfile.TemporaryDirectory() as folder:
        config = LongTermConfig(memory_path="memory.json" if by_json else "memory.db")
        setup = StoreSetup(name="any", store_type="long_term", config=config, base_dir=Path(folder))
        for time in ("first", "again"):
            store = LongTermMemory(setup)
            role = store.recover("r")
            if time == "first":
                assert role.add_batch(told) == told
            kept = role.get()
            store.close()
            assert all(one.identical(other) for one, other in zip(kept, told, strict=True))


def test_a_failed_write_changes_nothing(open_store: OpenStore) -> None:
    """L2: there is no memory that was not recovered, and what could not be kept is not half there either."""
    store = open_store()
    role = store.recover("r")
    store.close()
    message = UserMessage("hello")
    with pytest.raises(CollectionError):
        role.add(message)
    assert role.count() == 0
    assert open_store().recover("r").add(message)


def test_what_is_known_is_not_kept_again(open_store: OpenStore) -> None:
    """L3: neither a second row nor a second embedding, not even after the message left the short-term memory."""
    embedder = HashEmbedder()
    store = open_store(embedder=embedder, short_term=2)
    role = store.recover("r")
    told = [UserMessage(f"message {n}") for n in range(4)]
    assert role.add_batch(told) == told
    embedded = len(embedder.texts)
    assert not role.add(told[3])
    assert role.add_batch(told) == []
    assert role.find_news(told) == []
    assert not role.add(UserMessage("other words under a known id", id=told[0].id))
    assert store.count() == 4
    assert len(embedder.texts) == embedded
    assert role.get() == told[2:]
    assert contents(open_store(embedder=embedder, short_term=9).recover("r").get()) == contents(told)


def test_what_is_deleted_is_gone_for_good(open_store: OpenStore) -> None:
    """L4: from both memories, from the search, and in the next process."""
    store = open_store(embedder=AngleEmbedder())
    role = store.recover("r")
    idea, other = UserMessage(IDEA), UserMessage(OTHER_IDEA)
    assert role.clear() == 0
    role.add_batch([idea, other])
    assert role.delete(idea)
    assert not role.delete(idea)
    assert role.search_similar(idea) == []
    assert role.find_news([idea]) == [idea]
    assert open_store(embedder=AngleEmbedder()).recover("r").get() == [other]
    assert role.delete_newest() == other
    assert role.delete_newest() is None
    assert store.count() == 0
    role.add_batch([idea, other])
    assert role.clear() == 2
    assert role.search_similar(idea) == []
    assert store.recover("r").count() == store.count() == 0


def test_what_the_store_deletes_the_role_forgets(open_store: OpenStore) -> None:
    """So that it is news when it comes again; what was never kept for long stays at hand."""
    store = open_store(watch=["keep"])
    role = store.recover("r")
    kept, passing = UserMessage("kept", cause_by="keep"), UserMessage("passing")
    role.add_batch([kept, passing])
    assert store.clear() == 1
    assert role.get() == [passing]
    assert role.add(kept)
    assert store.trim(keep=0) == 1
    assert role.add(kept)
    assert store.delete(ids=[item.id for item in store.recent(1)]) == 1
    assert role.get() == [passing]


def test_a_message_is_kept_for_its_days(open_store: OpenStore, clock: ManualClock) -> None:
    """L5: `ttl_days` counts, from when the message was kept; then it is neither recovered nor known."""
    role = open_store(ttl_days=30).recover("r")
    role.add(UserMessage("old"))
    clock.advance(20 * 86_400)
    role.add(UserMessage("young"))
    assert contents(open_store(ttl_days=30).recover("r").get()) == ["old", "young"]
    clock.advance(10 * 86_400)
    later = open_store(ttl_days=30)
    role = later.recover("r")
    assert contents(role.get()) == ["young"]
    assert role.search_similar("old") == []
    assert contents(role.find_news([UserMessage("old"), UserMessage("young")])) == ["old"]
    assert later.count() == 1


@pytest.mark.parametrize("role_id", ["../../outside", "con:*?", "产品经理"])
def test_a_roles_name_is_no_path(open_store: OpenStore, tmp_path: Path, role_id: str) -> None:
    """L6: no file is made or removed because of it, and no other role is touched."""
    store = open_store()
    other = store.recover("other")
    other.add(UserMessage("stays"))
    before = set(tmp_path.parent.rglob("*"))
    role = store.recover(role_id)
    role.add(UserMessage("goes"))
    assert contents(open_store().recover(role_id).get()) == ["goes"]
    assert role.clear() == 1
    assert set(tmp_path.parent.rglob("*")) == before
    assert contents(open_store().recover("other").get()) == ["stays"]


@pytest.mark.parametrize("role_id", ["", "\n"])
def test_a_role_without_a_name_is_not_all_roles(open_store: OpenStore, role_id: str) -> None:
    """L6: MetaGPT's folder of all roles is what an empty id names there."""
    with pytest.raises(MessageError, match="blank"):
        open_store().recover(role_id)
