"""The outbox that stores and the manager share: order, keys, limits, and what a crash leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest

from devmem.errors import CollectionClosedError, OutboxError, OutboxFullError
from devmem.storage import DeliveryPolicy, Entry, Outbox, deliver, examine_pending


class MakeOutbox(Protocol):
    def __call__(self, *, limit: int = 10) -> Outbox[str]: ...


def load(body: str) -> str:
    if body == "not mine":
        raise ValueError("it is not mine")
    return body


@pytest.fixture(params=["file", "process"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeOutbox]:
    opened: list[Outbox[str]] = []

    def make(*, limit: int = 10) -> Outbox[str]:
        file = tmp_path / "folder" / "box.db" if request.param == "file" else None
        opened.append(Outbox(file, dump=str, load=load, limit=limit))
        return opened[-1]

    yield make
    for outbox in opened:
        outbox.close()


class Receiver:
    """Takes texts, and fails when it is told to."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.seen: list[Entry[str]] = []
        self.failing: dict[str, Exception] = {}

    def send(self, entries: Sequence[Entry[str]]) -> list[int]:
        self.seen += entries
        for entry in entries:
            if entry.value in self.failing:
                raise self.failing[entry.value]
        self.taken += [entry.value for entry in entries]
        return [len(entry.value) for entry in entries]


def test_writes_are_delivered_in_order_and_leave(make: MakeOutbox) -> None:
    outbox, receiver = make(), Receiver()
    outbox.put({"b": "one", "a": "three"})
    outbox.put({"c": "four", "b": "again"})
    delivery = deliver(outbox, receiver.send, DeliveryPolicy(batch=2), patience=0)
    assert receiver.taken == ["one", "three", "four"]
    assert (delivery.results, delivery.stopped_by, outbox.waiting()) == ({"b": 3, "a": 5, "c": 4}, None, 0)


def test_failure_ends_the_delivery_and_keeps_what_was_not_taken(make: MakeOutbox) -> None:
    outbox, receiver = make(), Receiver()
    outbox.put({"1": "one", "2": "two", "3": "three"})
    receiver.failing["two"] = down = OSError("down")
    delivery = deliver(outbox, receiver.send, DeliveryPolicy(), patience=0)
    assert (receiver.taken, delivery.stopped_by, outbox.waiting()) == (["one"], down, 2)
    receiver.failing.clear()
    deliver(outbox, receiver.send, DeliveryPolicy(), patience=0)
    assert receiver.taken == ["one", "two", "three"]


def test_refused_write_holds_back_no_other_and_can_be_readmitted(make: MakeOutbox) -> None:
    outbox, receiver = make(), Receiver()
    outbox.put({"1": "one", "2": "two"})
    receiver.failing["one"] = ValueError("not this")
    policy = DeliveryPolicy(refusals=(ValueError,))
    assert list(deliver(outbox, receiver.send, policy, patience=0).refused) == ["1"]
    assert (receiver.taken, outbox.waiting(), outbox.refused()) == (["two"], 0, 1)
    assert outbox.refusal("1") == "not this"
    assert [entry.value for entry in outbox.entries(refused=True)] == ["one"]
    receiver.failing.clear()
    outbox.readmit()
    deliver(outbox, receiver.send, policy, patience=0)
    assert (receiver.taken, outbox.refused(), outbox.refusal("1")) == (["two", "one"], 0, None)


def test_write_that_may_have_arrived_is_marked_for_the_next_attempt(make: MakeOutbox) -> None:
    outbox, receiver = make(), Receiver()
    outbox.put({"1": "one"})
    policy = DeliveryPolicy(idempotent=False, may_have_arrived=lambda error: isinstance(error, TimeoutError))
    for error in (ConnectionError("refused"), TimeoutError("late"), ConnectionError("refused"), None):
        receiver.failing = {"one": error} if error else {}
        deliver(outbox, receiver.send, policy, patience=0)
    assert [entry.attempts for entry in receiver.seen] == [0, 0, 1, 1]


def test_full_outbox_takes_none_of_what_is_too_much(make: MakeOutbox) -> None:
    outbox = make(limit=2)
    outbox.put({"1": "one"})
    with pytest.raises(OutboxFullError, match="2 writes wait"):
        outbox.put({"2": "two", "3": "three"})
    assert [entry.key for entry in outbox.entries()] == ["1"]


def test_entry_that_cannot_be_read_is_set_aside(make: MakeOutbox) -> None:
    outbox, receiver = make(), Receiver()
    outbox.put({"1": "not mine", "2": "two"})
    deliver(outbox, receiver.send, DeliveryPolicy(), patience=0)
    assert (receiver.taken, outbox.refused()) == (["two"], 1)
    assert "cannot be read" in (outbox.refusal("1") or "")


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "box.db", dump=str, load=load)
    assert (outbox.waiting(), outbox.refused(), outbox.remove(["1"])) == (0, 0, 0)
    assert list(tmp_path.iterdir()) == []


def test_file_is_private_and_outlives_the_process(tmp_path: Path) -> None:
    file = tmp_path / "box.db"
    first = Outbox(file, dump=str, load=load)
    first.put({"b": "one", "a": "two"})
    assert file.stat().st_mode & 0o077 == 0
    first.close()
    with pytest.raises(CollectionClosedError):
        first.put({"c": "three"})
    again = Outbox(file, dump=str, load=load)
    assert [entry.value for entry in again.oldest(5)] == ["one", "two"]
    again.close()
    assert examine_pending(file).facts == {"waiting": 2, "refused": 0}


def test_file_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outbox = Outbox(tmp_path / "file" / "box.db", dump=str, load=load)
    with pytest.raises(OutboxError, match=r"box\.db"):
        outbox.put({"1": "one"})
    (tmp_path / "text.db").write_text("no database, but long enough to be read as one" * 10)
    with closing(Outbox(tmp_path / "text.db", dump=str, load=load)) as other, pytest.raises(OutboxError, match="text"):
        other.waiting()
    assert "cannot be read" in examine_pending(tmp_path / "text.db").findings[0].message


def test_one_thread_or_process_sends_at_a_time(tmp_path: Path) -> None:
    one, other = (Outbox(tmp_path / "box.db", dump=str, load=load) for _ in range(2))
    one.put({"1": "one"})
    with one.turn(1) as mine, other.turn(0) as too, one.turn(0) as again:
        assert (mine, too, again) == (True, False, False)
        delivery = deliver(other, Receiver().send, DeliveryPolicy(), patience=0)
        assert "another process is sending" in str(delivery.stopped_by)
    with other.turn(0) as mine:
        assert mine
    for outbox in (one, other):
        outbox.close()


def test_threads_deliver_each_write_once(make: MakeOutbox) -> None:
    outbox, receiver = make(limit=1000), Receiver()

    def work(thread: int) -> None:
        for number in range(20):
            outbox.put({f"{thread}-{number}": f"{thread}-{number}"})
            deliver(outbox, receiver.send, DeliveryPolicy(), patience=60)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outbox.waiting() == 0
    assert sorted(receiver.taken) == sorted(f"{thread}-{number}" for thread in range(4) for number in range(20))


def test_kinds_and_places_share_a_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    outboxes = [
        Outbox(file, dump=str, load=load, kind=kind, place=place)
        for kind in ("write", "delivery")
        for place in ("a", "b/ü")
    ]
    for number, outbox in enumerate(outboxes):
        outbox.put({"same key": str(number)})
    with outboxes[0].turn(0) as mine, outboxes[1].turn(0) as too:
        assert (mine, too) == (True, True)
    assert outboxes[0].remove(["same key"]) == 1
    outboxes[1].refuse("same key", "not this")
    assert [outbox.held() for outbox in outboxes] == [0, 1, 1, 1]
    assert [[entry.value for entry in outbox.entries()] for outbox in outboxes] == [[], [], ["2"], ["3"]]
    assert examine_pending(file, "b/ü").facts == {"waiting": 1, "refused": 1}
    for outbox in outboxes:
        outbox.close()


def test_batch_that_fails_again_is_sent_one_by_one_so_that_one_entry_holds_back_no_other(make: MakeOutbox) -> None:
    outbox, receiver = make(), Receiver()
    outbox.put({"1": "one", "2": "two", "3": "three"})
    receiver.failing["two"] = RuntimeError("not this")
    policy = DeliveryPolicy(batch=10)
    for _ in range(2):
        assert deliver(outbox, receiver.send, policy, patience=0).stopped_by is receiver.failing["two"]
        assert (receiver.taken, outbox.waiting()) == ([], 3)
    assert list(deliver(outbox, receiver.send, policy, patience=0).refused) == ["2"]
    assert (receiver.taken, outbox.waiting(), outbox.refusal("2")) == (["one", "three"], 0, "RuntimeError: not this")


def test_batch_of_a_receiver_that_is_down_stays_whole(make: MakeOutbox) -> None:
    outbox, receiver = make(), Receiver()
    outbox.put({"1": "one", "2": "two"})
    receiver.failing = {"one": OSError("down"), "two": OSError("down")}
    for _ in range(4):
        assert isinstance(deliver(outbox, receiver.send, DeliveryPolicy(batch=10), patience=0).stopped_by, OSError)
    assert (outbox.waiting(), outbox.refused()) == (2, 0)


def test_entries_are_listed_in_their_order(make: MakeOutbox) -> None:
    outbox = make(limit=1000)
    outbox.put({str(number): f"text {number}" for number in range(600)})
    assert [entry.key for entry in outbox.entries()] == [str(number) for number in range(600)]
    assert outbox.remove(["7", "none"]) == 1
