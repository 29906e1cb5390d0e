"""Items expire: by the store's `ttl`, by an attachment's, or at a time of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import devmem
from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload
from devmem.stores import CollectionMemory, WriteStatus
from devmem.testing import ManualClock
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.brain import BrainMemory
from devmem_stores.conversation import ConversationMemory
from devmem_stores.long_term import LongTermMemory
from devmem_stores.role_zero import RoleZeroMemory
from devmem_stores.simple import SimpleConfig, SimpleMemory
from tests.conftest import MakeStore

TYPES: list[type[CollectionMemory]] = [
    *(SimpleMemory, BlackboardMemory, LongTermMemory),
    *(ConversationMemory, RoleZeroMemory, BrainMemory),
]
Open = Callable[..., CollectionMemory]


@pytest.fixture
def opened(make_store: MakeStore) -> Open:
    def opened(kind: type[CollectionMemory], **config: Any) -> CollectionMemory:
        return make_store(kind, **{"memory_path": "store.db", **config})

    return opened


def said(text: str, answer: str = "noted", **fields: Any) -> MemoryWritePayload:
    return MemoryWritePayload(inputs_text=text, output_snapshot=MemoryContentSnapshot(text=answer), **fields)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_the_stores_ttl_stamps_what_has_no_expiry(
    kind: type[CollectionMemory], clock: ManualClock, opened: Open
) -> None:
    """An expiry of its own goes before the `ttl`, be it earlier or later."""
    store = opened(kind, ttl="1h")
    store.update(said("the first", "one"))
    store.update(said("the second", "two", expires_at=clock.now + 60))
    store.add([MemoryItem(content_summary="the third", expires_at=clock.now + 7_200)])
    assert {item.expires_at for item in store.recent(9)} == {clock.now + 60, clock.now + 3_600, clock.now + 7_200}
    for passed, left in ((60, 2), (3_540, 1), (3_600, 0)):
        clock.advance(passed)
        assert store.count() == len(store.recent(9)) == left


@pytest.mark.parametrize("kind", [LongTermMemory, SimpleMemory], ids=lambda kind: kind.__name__)
def test_storing_an_item_again_is_no_change(kind: type[CollectionMemory], clock: ManualClock, opened: Open) -> None:
    """Its time goes on; other content under the same id begins again, and so does what had expired."""
    store = opened(kind, ttl=100)
    note = MemoryItem(id="1", content_summary="tea at five")
    store.add([note])
    first = clock.now + 100
    clock.advance(40)
    assert store.add([note])[0].status is WriteStatus.DUPLICATE
    assert store.get(["1"])[0].expires_at == first
    store.add([MemoryItem(id="1", content_summary="tea at six")])
    assert store.get(["1"])[0].expires_at == clock.now + 100
    clock.advance(100)
    assert store.add([note])[0].status is WriteStatus.STORED
    assert store.get(["1"])[0].expires_at == clock.now + 100


def test_an_expiry_that_was_taken_away_stays_away(clock: ManualClock, opened: Open) -> None:
    """Whoever replaces a version that he knows decides about its expiry."""
    store = opened(SimpleMemory, ttl="1d")
    memory = devmem.Memory(store)
    item_id = memory.add("The door code is 4711.")
    assert memory.update(item_id, expires_at=None).expires_at is None
    clock.advance(90_000)
    assert memory.count() == 1


@pytest.mark.parametrize("written", ["soon", 0, True])
def test_a_ttl_that_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        SimpleConfig.model_validate({"ttl": written})


def test_a_conversation_forgets_what_expired(clock: ManualClock, tmp_path: Path, opened: Open) -> None:
    """Neither its history nor its summaries tell of it; what is left of a summarized part is history again."""
    store = opened(BrainMemory, max_messages=4, keep_messages=1)
    assert isinstance(store, BrainMemory)
    store.update(said("my pin is 4711", "I keep it", expires_at=clock.now + 60))
    for number in range(4):
        clock.advance(1)
        store.update(said(f"question {number}", f"answer {number}"))
    talk = store.brain()
    assert "4711" in talk.historical_summary
    clock.advance(60)
    assert "4711" not in talk.snapshot().whole_text()
    assert "question 0" in talk.snapshot().whole_text()
    store.update(said("and now?", "goodbye"))
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        (state,) = connection.execute("SELECT value FROM states WHERE kind = 'conversation'").fetchone()
    assert "4711" not in state.decode()
    assert all("4711" not in hit.content_summary for hit in store.retrieve("", "pin", 9))


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind is not BrainMemory], ids=lambda kind: kind.__name__)
def test_nothing_outlives_the_retention(kind: type[CollectionMemory], clock: ManualClock, opened: Open) -> None:
    """Whatever its own expiry is, and however often it is stored again."""
    store = opened(kind, retention="1h", ttl="2h")
    store.update(said("the first", "one"))
    store.update(said("the second", "two", expires_at=clock.now + 9e6))
    store.update(said("the third", "three", expires_at=clock.now + 60))
    assert {item.expires_at for item in store.recent(9)} == {clock.now + 60, clock.now + 3_600}
    note = MemoryItem(id="note", content_summary="tea at five", created_at=clock.now)
    store.add([note])
    clock.advance(3_000)
    assert store.add([replace(note, created_at=clock.now)])[0].status is WriteStatus.DUPLICATE
    clock.advance(600)
    assert store.count() == 0


def test_what_was_stored_before_the_retention_goes_too(clock: ManualClock, tmp_path: Path, opened: Open) -> None:
    """The writes that follow delete it without a version, and an import does not bring it back."""
    store = opened(SimpleMemory)
    old = MemoryItem(id="old", content_summary="long ago", created_at=clock.now)
    store.add([old])
    store.close()
    clock.advance(100)
    store = opened(SimpleMemory, retention=100)
    (outcome,) = store.add([MemoryItem(id="older", content_summary="before that", created_at=clock.now - 200)])
    assert (outcome.status, outcome.reason) == (WriteStatus.SKIPPED, "older than the store's `retention`")
    clock.advance(1)
    store.update(said("something new"))
    assert [item.content_summary for item in store.recent(9)] == ["Input: something new\nOutput: noted"]
    with devmem.open(str(tmp_path / "store.db")) as memory:
        assert memory.history("old") == []


@pytest.mark.parametrize("place", ["store.db", "store.json"])
def test_a_store_within_its_limits_is_closed_without_a_write(
    tmp_path: Path, opened: Open, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever only searches waits for no other process that writes, and replaces no file."""
    limits = {"memory_path": place, "max_items": 1, "retention": 100}
    store = opened(SimpleMemory, **limits)
    store.update(said("tea"))
    store.close()
    before = (tmp_path / place).stat()
    with ExitStack() as writing:
        if place == "store.db":
            other = writing.enter_context(closing(sqlite3.connect(tmp_path / place, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
        reader = opened(SimpleMemory, **limits)
        reader.save()
        assert not caplog.records
    after = (tmp_path / place).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
