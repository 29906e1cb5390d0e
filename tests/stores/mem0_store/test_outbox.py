"""Writes that mem0 does not take: kept, sent later, in order, once each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from devmem import MemoryWritePayload, WriteOutcome
from devmem.errors import Mem0Error
from devmem.stores import WriteStatus
from devmem.testing import ManualClock
from devmem_stores.mem0 import Mem0Memory
from tests.conftest import StartScript

from .conftest import MakeStore, mem0_error
from .fake_mem0 import KEY, FakeMem0, Fault, failure


def say(store: Mem0Memory, text: str) -> WriteOutcome:
    return store.update(MemoryWritePayload(inputs_text=text))


def down(fake: FakeMem0, times: int = 3) -> None:
    fake.faults += [failure(500) for _ in range(times)]


def test_failed_writes_are_sent_later_in_order(store: Mem0Memory, fake: FakeMem0, clock: ManualClock) -> None:
    down(fake)
    outcome = say(store, "One.")
    assert outcome.status is WriteStatus.QUEUED
    assert isinstance(outcome.failure, Mem0Error)
    assert outcome.failure.kind == "server"
    assert "state.db" in outcome.reason
    assert say(store, "Two.").status is WriteStatus.QUEUED
    assert (store.unsent, fake.texts()) == (2, [])
    clock.advance(60)
    assert say(store, "Three.").status is WriteStatus.STORED
    assert (store.unsent, fake.texts()) == (0, ["One.", "Two.", "Three."])


def test_save_sends_what_waits_and_never_fails(store: Mem0Memory, fake: FakeMem0, clock: ManualClock) -> None:
    down(fake)
    say(store, "One.")
    requests = len(fake.requests)
    store.save()
    assert len(fake.requests) == requests
    clock.advance(60)
    down(fake, 1)
    store.save()
    assert store.unsent == 1
    clock.advance(120)
    store.save()
    assert (store.unsent, fake.texts()) == (0, ["One."])


@pytest.mark.parametrize("fault", ["cut", "drop"])
@pytest.mark.parametrize("knows_filters", [True, False])
def test_write_whose_answer_was_lost_is_not_sent_twice(
    fault: str, knows_filters: bool, store: Mem0Memory, fake: FakeMem0
) -> None:
    fake.knows_metadata_filters = knows_filters
    fake.remember("Something else.", user_id="ann")
    fake.faults.append(Fault(fault, path="/v3/memories/add/", after_work=True))
    assert say(store, "One. Two.").status is WriteStatus.STORED
    assert fake.texts() == ["Something else.", "One.", "Two."]
    assert len(fake.called("/v3/memories/add/")) == 1


def test_write_whose_answer_was_late_is_not_sent_twice(
    make_store: MakeStore, fake: FakeMem0, clock: ManualClock
) -> None:
    fake.faults.append(Fault("hang", path="/v3/memories/add/", after_work=True))
    arrived = fake.notify_at("/v3/memories/add/")
    with closing(make_store(timeout=1, retries=0)) as impatient:
        assert say(impatient, "One.").status is WriteStatus.QUEUED
    # The write must not come after the question whether it is there, and the answer to that in time.
    assert arrived.wait(60)
    clock.advance(60)
    say(make_store(), "Two.")
    assert fake.texts() == ["One.", "Two."]
    assert len(fake.called("/v3/memories/add/")) == 2


def test_write_that_mem0_refuses_for_good_stops_no_other(store: Mem0Memory, fake: FakeMem0) -> None:
    outcome = say(store, "This is unstorable.")
    assert outcome.status is WriteStatus.SKIPPED
    assert "this text is refused" in outcome.reason
    assert outcome.failure is not None
    assert say(store, "One.").status is WriteStatus.STORED
    assert (store.unsent, store.refused, fake.texts()) == (0, 1, ["One."])


def test_without_outbox_a_failed_write_is_raised(make_store: MakeStore, fake: FakeMem0) -> None:
    down(fake)
    store = make_store(outbox=None)
    with mem0_error("server"):
        say(store, "One.")
    assert fake.texts() == []


def test_platform_that_makes_memories_later(store: Mem0Memory, fake: FakeMem0) -> None:
    fake.queues_writes = True
    outcome = say(store, "One.")
    assert (outcome.status, outcome.item_id) == (WriteStatus.STORED, None)


CHILD = """
import sys
from pathlib import Path
from devmem import MemoryWritePayload
from devmem.stores import StoreSetup
from devmem_stores.mem0 import Mem0Config, Mem0Memory

folder, host, key, *texts = sys.argv[1:]
config = Mem0Config(api_key=key, host=host, user_id="ann", retries=0)
setup = StoreSetup(name="notes", store_type="mem0", config=config, session_dir=Path(folder))
store = Mem0Memory(setup)
print("ready", flush=True)
for text in texts:
    store.update(MemoryWritePayload(inputs_text=text))
"""


@pytest.mark.parametrize("after_work", [True, False])
def test_killed_while_sending(
    after_work: bool, make_store: MakeStore, fake: FakeMem0, tmp_path: Path, start_script: StartScript
) -> None:
    """Whether or not mem0 had carried the write out, it is there once after the next start."""
    fake.faults.append(Fault("hang", path="/v3/memories/add/", after_work=after_work))
    arrived = fake.notify_at("/v3/memories/add/")
    child = start_script(CHILD, tmp_path / "session", fake.address, KEY, "One.", "Two.")
    assert arrived.wait(60)
    child.kill()
    child.wait(60)
    store = make_store()
    assert store.unsent == 1
    say(store, "Three.")
    assert fake.texts() == ["One.", "Three."]


def test_threads_send_each_write_once_while_the_server_fails_now_and_then(
    make_store: MakeStore, fake: FakeMem0, clock: ManualClock
) -> None:
    store = make_store()
    for number in range(8):
        fake.faults.append(failure(500, path="/v3/memories/add/", after_work=bool(number % 2)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: say(store, f"Fact {n}."), range(12)))
    for _ in range(10):
        clock.advance(1000)
        store.save()
    assert store.unsent == 0
    assert sorted(fake.texts()) == sorted(f"Fact {n}." for n in range(12))


def test_long_search_for_a_write_goes_through_every_page(store: Mem0Memory, fake: FakeMem0) -> None:
    fake.knows_metadata_filters = False
    for number in range(120):
        fake.remember(f"Fact {number}.", user_id="ann")
    fake.faults.append(Fault("drop", path="/v3/memories/add/", after_work=True))
    assert say(store, "One.").item_id == fake.memories[-1]["id"]
    assert len(fake.memories) == 121
