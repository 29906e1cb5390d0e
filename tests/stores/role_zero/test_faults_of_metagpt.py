"""Faults that were found in MetaGPT's RoleZero memory, each of which must not be here."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from hypothesis import given

from devmem import MemoryContentSnapshot, MemoryManager, MemoryWritePayload, Scope
from devmem.config import Attachment
from devmem.errors import CollectionBusyError
from devmem.messages import (
    Message,
    UserMessage,
    item_to_message,
)
from devmem.stores import WriteStatus
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock
from devmem_stores.role_zero.role import RoleMessages, item_of
from tests.conftest import StartScript
from tests.strategies import SCOPES, messages

from .conftest import OpenStore, fill, ids, said


def test_z1_a_duplicate_moves_nothing(memory: RoleMessages) -> None:
    fill(memory, 5)
    for _ in range(3):
        assert memory.add(said(4)).status is WriteStatus.DUPLICATE
        assert memory.add(said(0, "the same message, changed since")).status is WriteStatus.DUPLICATE
    assert ids(memory.long_term()) == ["m0", "m1"]
    assert ids(memory.window()) == ["m2", "m3", "m4"]


def test_z2_what_was_deleted_is_nowhere_and_nothing_is_moved_twice(open_store: OpenStore) -> None:
    memory = open_store(memory_k=3, recall="always").role("engineer")
    fill(memory, 5)
    for number in range(5, 8):
        assert memory.delete_newest() is not None
        memory.add(said(number, f"another message number {number}"))
        assert ids(memory.window()) == ["m2", "m3", f"m{number}"]
        assert ids(memory.long_term()) == ["m0", "m1"]
    assert memory.delete("m0") is True
    memory.add(said(9, "message number 0"))
    assert "m0" not in ids(memory.recall(1).related)


def test_z3_a_restored_history_is_long_term_as_if_it_was_said_here(open_store: OpenStore) -> None:
    embedder = HashEmbedder()
    memory = open_store(memory_k=3, memory_path="roles.db", recall="always", embedder=embedder).role("engineer")
    memory.add_batch(said(number) for number in range(20))
    assert embedder.calls == 1
    assert ids(memory.long_term()) == [f"m{number}" for number in range(17)]
    # Another size of the window is no reason to lose or to double anything.
    other = open_store(memory_k=10, memory_path="roles.db").role("engineer")
    assert len(other.window()) == len(list(other.long_term())) == 10
    assert "m2" in ids(memory.recall(1).related + tuple(memory.get_by_content("number 2")))


@pytest.mark.parametrize("k", range(1, 9))
def test_z4_neither_gap_nor_overlap(open_store: OpenStore, k: int) -> None:
    """Whatever `k` is, each message can be got, and none twice."""
    store = open_store(memory_k=3, recall="always", similarity_top_k=100)
    memory = store.role("engineer")
    fill(memory, 7)
    got = ids(memory.get(k))
    assert got == [f"m{number}" for number in range(7)]
    recall = memory.recall(k)
    assert len(recall.recent) == min(k, 7)
    assert not set(ids(recall.recent)) & set(ids(recall.related))


def test_z5_what_cannot_be_stored_now_is_stored_later(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role is told that its message was not stored; a node's is kept by the manager, in order, and stored later."""
    store = open_store(memory_path="roles.db")
    manager = MemoryManager([Attachment(name="roles")], {"roles": store})
    with monkeypatch.context() as patched:

        def busy(*_: object, **__: object) -> None:
            raise CollectionBusyError("roles.db", "another process held the write lock for too long.")

        patched.setattr(type(store.collection), "add", busy)
        with pytest.raises(CollectionBusyError):
            store.role("engineer").add(said(2))
        manager.update(MemoryWritePayload(inputs_text="What is late?"))
        assert (manager.unsaved, store.count()) == (1, 0)
    manager.update(MemoryWritePayload(inputs_text="What is next?"))
    assert manager.unsaved == 0
    assert [item.content_summary for item in store.recent(2)] == ["What is next?", "What is late?"]


def test_z5_a_provider_that_is_down_costs_nothing(open_store: OpenStore, clock: ManualClock) -> None:
    embedder = FailingEmbedder()
    store = open_store(memory_k=1, memory_path="roles.db", recall="always", embedder=embedder)
    memory = store.role("engineer")
    assert memory.add(said(0, "the deadline is in June")).waiting is True
    memory.add(said(2, "which deadline?"))
    recall = memory.recall(1)
    assert ids(recall.related) == ["m0"]
    assert [failure.operation for failure in recall.failures] == ["embed the query"]
    embedder.recover()
    clock.advance(600)
    store.save()
    assert store.info().waiting == 0
    recall = memory.recall(1)
    assert recall.failures == ()
    assert recall.hits[0].similarity is not None


def test_z6_no_role_user_session_or_project_sees_another_s(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store(memory_k=1, recall="always")
    owners = [
        {"name": "engineer"},
        {"name": "engineer", "user": "ann"},
        {"name": "engineer", "user": "ann", "session": "s1"},
        {"name": "engineer", "user": "ann", "session": "s2"},
        {"name": "engineer", "session": "s1"},
        {"name": "manager"},
        {"name": ""},
    ]
    memories = [store.role(**owner) for owner in owners]
    for at, memory in enumerate(memories):
        for number in range(3):
            # The same message goes to every role.
            assert memory.add(said(number)).status is WriteStatus.STORED
        memory.add(UserMessage(f"the secret of memory {at}", id="secret"))
        memory.add(UserMessage("what is the secret?", id="asked"))
    for at, memory in enumerate(memories):
        recall = memory.recall(1)
        assert [message.content for message in recall.related if message.id == "secret"] == [
            f"the secret of memory {at}"
        ]
        assert memory.count() == 5
    assert memories[0].clear() == 5
    assert [memory.count() for memory in memories] == [0, *[5] * 6]
    folder = tmp_path / "another project"
    elsewhere = open_store(memory_k=1, recall="always", folder=folder, session=folder / "session")
    assert elsewhere.role("engineer").count() == 0


def test_z6_nodes_recall_what_their_own_role_wrote(open_store: OpenStore) -> None:
    def exchange(role: str, answer: str) -> MemoryWritePayload:
        return MemoryWritePayload(
            agent_role=role, inputs_text="the code?", output_snapshot=MemoryContentSnapshot(text=answer)
        )

    store = open_store()
    store.update(exchange("You are Ann.", "the code is 1234"))
    store.update(exchange("You are Bob.", "the code is 5678"))
    store.update(exchange("", "the code is on the board"))
    found = [item.content_summary for item in store.retrieve("You are Ann.", "the code?", 5)]
    assert sorted(found) == ["the code?\nthe code is 1234", "the code?\nthe code is on the board"]
    assert len(open_store(shared=True).retrieve("You are Ann.", "the code?", 5)) == 3


@given(message=messages(), scope=SCOPES)
def test_z8_any_message_is_what_it_was(message: Message, scope: Scope) -> None:
    item = item_of(message, scope, stored_at=1.0, limit=100)
    assert item_to_message(item).identical(message)
    assert len(item.content_summary) <= 100


_TALKING = """
import sys
from pathlib import Path
from devmem.messages import UserMessage
from devmem.stores import StoreSetup
from devmem.testing import HashEmbedder
from devmem_stores.role_zero import RoleZeroConfig, RoleZeroMemory
block = {"memory_path": "roles.db", "memory_k": 5, "embedding": {"provider": "openai", "model": "testing"}}
options = {"config": RoleZeroConfig.model_validate(block), "base_dir": Path(sys.argv[1])}
options |= {"name": "roles", "store_type": "role_zero", "open_embedder": lambda _: HashEmbedder()}
store = RoleZeroMemory(StoreSetup(**options))
store.load()
memory, number = store.role("engineer", user="ann"), int(sys.argv[2])
while True:
    message = UserMessage(f"message number {number}", id=str(number))
    # Every other one with its predecessor once more, which changes nothing.
    memory.add_batch([UserMessage("again", id=str(number - 1)), message] if number % 2 else [message])
    print(number, flush=True)
    number += 1
"""
"""Adds messages to a role's memory without end, and prints the number of each once it is stored."""


def check_places(memory: RoleMessages) -> list[str]:
    """Return the ids of all messages, each of which is in exactly one place."""
    window, long_term, history = ids(memory.window()), ids(memory.long_term()), ids(memory.history())
    assert long_term + window == history
    assert len(set(history)) == len(history) == memory.count()
    assert len(window) == min(len(history), 5)
    return history


@pytest.mark.kit
def test_kills_at_random_points(open_store: OpenStore, tmp_path: Path, start_script: StartScript) -> None:
    chance = random.Random(7)
    acknowledged = -1
    for _ in range(12):
        process = start_script(_TALKING, tmp_path, acknowledged + 1)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 25)):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        # What it could still print before it died was stored too.
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split("\n")[:-1])])
        process.wait()
        store = open_store(memory_k=5, memory_path="roles.db")
        history = check_places(store.role("engineer", user="ann"))
        expected = [str(number) for number in range(acknowledged + 1)]
        # One more may be there: killed between storing it and saying so.
        assert history in (expected, [*expected, str(acknowledged + 1)])
        store.close()
    assert acknowledged > 12
