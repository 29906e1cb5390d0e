"""Processes that are killed, and disks that come back: each message is in the window or in long-term memory, once."""

from __future__ import annotations

import random
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from devmem.errors import CollectionClosedError
from devmem.messages import UserMessage
from devmem.stores import WriteStatus
from devmem.testing import ManualClock
from devmem_stores.role_zero.role import RoleMemory
from tests.conftest import StartScript

from .conftest import FlakyStore, MakeStore, fill, ids, said

WORKER = Path(__file__).parent / "workers" / "talk.py"


def check_places(memory: RoleMemory) -> list[str]:
    """Return the ids of all messages, each of which is in exactly one place."""
    window, long_term, history = ids(memory.window()), ids(memory.long_term()), ids(memory.history())
    assert long_term + window == history
    assert len(set(history)) == len(history) == memory.count()
    assert len(window) == min(len(history), 5)
    return history


@pytest.mark.kit
def test_kills_at_random_points(make_store: MakeStore, tmp_path: Path, start_script: StartScript) -> None:
    chance = random.Random(7)
    acknowledged = -1
    for _ in range(12):
        process = start_script(WORKER, tmp_path, acknowledged + 1)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 25)):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        # What it could still print before it died was stored too.
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split("\n")[:-1])])
        process.wait()
        store = make_store(memory_k=5, memory_path="roles.db")
        history = check_places(store.role("engineer", user="ann"))
        expected = [str(number) for number in range(acknowledged + 1)]
        # One more may be there: killed between storing it and saying so.
        assert history in (expected, [*expected, str(acknowledged + 1)])
        store.close()
    assert acknowledged > 12


def test_killed_between_delivering_and_emptying_the_outbox(
    flaky: FlakyStore, make_store: MakeStore, clock: ManualClock
) -> None:
    """The messages are in both places then, and are still one each."""
    memory = flaky.role("engineer")
    fill(memory, 4)
    flaky.place.down = True
    for number in range(4, 9):
        memory.add(said(number))
    waiting = flaky.recent(5)
    flaky.place.down = False
    flaky.place.add([replace(item) for item in reversed(waiting)])
    assert flaky.unsent == 5
    expected = [f"m{number}" for number in range(9)]
    for store in (flaky, make_store(made=FlakyStore, memory_k=3)):
        again = store.role("engineer")
        assert sorted(ids(again.history())) == expected
        assert again.count() == 9
        assert ids(again.window()) == expected[-3:]
    clock.advance(60)
    later = make_store(made=FlakyStore, memory_k=3)
    assert later.unsent == 0
    assert ids(later.role("engineer").history()) == expected


def test_the_outbox_outlives_the_process_and_keeps_the_order(make_store: MakeStore, clock: ManualClock) -> None:
    first = make_store(made=FlakyStore, memory_k=3)
    assert isinstance(first, FlakyStore)
    fill(first.role("engineer"), 2)
    first.place.down = True
    for number in range(2, 6):
        first.role("engineer").add(said(number))
    first.close()
    clock.advance(60)
    second = make_store(made=FlakyStore, memory_k=3)
    assert second.unsent == 0
    assert ids(second.role("engineer").history()) == [f"m{number}" for number in range(6)]
    second.role("engineer").add(said(6))
    assert ids(second.role("engineer").window()) == ["m4", "m5", "m6"]


def test_without_an_outbox_the_write_fails(make_store: MakeStore) -> None:
    store = make_store(made=FlakyStore, outbox=None)
    assert isinstance(store, FlakyStore)
    store.place.down = True
    with pytest.raises(Exception, match="held the write lock"):
        store.role("engineer").add(said(0))
    assert store.role("engineer").count() == 0


def test_where_the_outbox_cannot_be_written_either_the_write_fails(make_store: MakeStore, tmp_path: Path) -> None:
    (tmp_path / "no folder").touch()
    store = make_store(made=FlakyStore, outbox="no folder/outbox.db")
    assert isinstance(store, FlakyStore)
    store.place.down = True
    with pytest.raises(Exception, match="no folder"):
        store.role("engineer").add(said(0))


def test_a_place_that_stays_down_is_asked_now_and_then(flaky: FlakyStore, clock: ManualClock) -> None:
    memory = flaky.role("engineer")
    flaky.place.down = True
    for number in range(30):
        memory.add(said(number))
        flaky.save()
        clock.advance(1)
    # After 0, 5, and 15 seconds.
    assert flaky.place.refused == 3
    assert flaky.unsent == 30
    flaky.place.down = False
    clock.advance(600)
    memory.add(UserMessage("it is back", id="back"))
    assert flaky.unsent == 0
    assert ids(memory.history()) == [*(f"m{number}" for number in range(30)), "back"]


def test_a_place_that_cannot_be_read_either_costs_no_message(flaky: FlakyStore, clock: ManualClock) -> None:
    memory = flaky.role("engineer")
    fill(memory, 2)
    flaky.place.down = flaky.place.unreadable = True
    for number in (1, 2):
        assert memory.add(said(number)).status is WriteStatus.QUEUED
    flaky.place.down = flaky.place.unreadable = False
    clock.advance(60)
    flaky.save()
    assert ids(memory.history()) == ["m0", "m1", "m2"]


def test_a_closed_store_opens_nothing_again(flaky: FlakyStore) -> None:
    flaky.place.down = True
    fill(flaky.role("engineer"), 2)
    flaky.close()
    with pytest.raises(CollectionClosedError):
        flaky.role("engineer").get(1)
    with pytest.raises(CollectionClosedError):
        flaky.role("engineer").add(said(3))


def test_what_waits_can_be_forgotten(flaky: FlakyStore) -> None:
    memory = flaky.role("engineer")
    flaky.place.down = True
    fill(memory, 3)
    assert memory.delete("m1") is True
    assert ids(memory.history()) == ["m0", "m2"]
    assert flaky.clear() == 2
    assert flaky.unsent == flaky.count() == 0


def test_write_to_a_locked_file_is_queued_before_long(make_store: MakeStore, tmp_path: Path) -> None:
    """Another process holds the write lock: SQLite's own wait is 30 seconds."""
    store = make_store(memory_path="roles.db")
    assert store.busy_timeout <= 1
    memory = store.role("engineer")
    memory.add(said(0))
    with closing(sqlite3.connect(tmp_path / "roles.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert memory.add(said(1)).status is WriteStatus.QUEUED
        assert ids(memory.get(5)) == ["m0", "m1"]
        other.execute("ROLLBACK")
