"""Records between recorded calls and the store: nothing acknowledged is lost, no call waits or fails."""

from __future__ import annotations

import logging
import os
import resource
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from devmem import record_tool
from devmem.recording import (
    Interaction,
    InteractionKind,
    InteractionRecorder,
    Participant,
    ParticipantType,
    RecordingOptions,
)
from devmem.storage import examine_pending
from devmem.text.retry import Backoff
from tests.conftest import StartScript

from .conftest import ListSink

FILE = "waiting.db"
EAGER = Backoff(first=0.001, longest=0.001)
CHILD = """
import sys
from devmem import record_tool
from devmem.recording import InteractionRecorder
class Never:
    def record(self, interactions): raise RuntimeError("down")
recorder = InteractionRecorder(Never(), sys.argv[1])
with recorder.trace(conversation="c"):
    for number in range(100000):
        with record_tool("t", f"n{number}") as call:
            call.output(number)
        print(number, flush=True)
"""


def forked(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    return pid


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Make every longer file fail, as a full disk does."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def ask(recorder: InteractionRecorder, count: int, start: int = 0) -> None:
    with recorder.trace(conversation="c"):
        for number in range(start, start + count):
            with record_tool("t", f"n{number}") as call:
                call.output(number)


def test_a_store_that_fails_gets_everything_later(sink: ListSink, tmp_path: Path) -> None:
    now = [0.0]
    recorder = InteractionRecorder(sink, tmp_path / FILE, backoff=Backoff(clock=lambda: now[0]))
    sink.down = True
    ask(recorder, 3)
    assert not recorder.flush(timeout=0.3)
    assert "is down" in recorder.status().failure
    sink.down = False
    now[0] = 1000.0
    assert recorder.flush()
    assert recorder.status().failure == ""
    assert [one.content for one in sink.in_order()][::2] == ["n0", "n1", "n2"]
    recorder.close()


def test_what_a_killed_process_recorded_is_stored_by_the_next(
    tmp_path: Path, sink: ListSink, start_script: StartScript
) -> None:
    for _ in range(3):
        process = start_script(CHILD, tmp_path / FILE)
        assert process.stdout is not None
        for _ in range(50):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with InteractionRecorder(sink, tmp_path / FILE) as recorder:
        ask(recorder, 1, start=900_000)
    inputs = [one.content for one in sink.in_order() if one.kind.value == "input"]
    for number in range(50):
        assert inputs.count(f"n{number}") == 3
    assert examine_pending(tmp_path / FILE).facts == {"waiting": 0, "refused": 0}


def test_records_of_other_stores_in_the_file_stay_theirs(tmp_path: Path, sink: ListSink) -> None:
    sink.down = True
    with InteractionRecorder(sink, tmp_path / FILE, store="one", backoff=EAGER) as recorder:
        ask(recorder, 1)
        recorder.close(timeout=0.1)
    other = ListSink()
    with InteractionRecorder(other, tmp_path / FILE, store="other") as recorder:
        ask(recorder, 1, start=10)
    assert {one.content for one in other.in_order()} == {"n10", "10"}
    sink.down = False
    with InteractionRecorder(sink, tmp_path / FILE, store="one"):
        pass
    assert {one.content for one in sink.in_order()} == {"n0", "0"}


def test_a_full_journal_counts_what_it_does_not_take(
    sink: ListSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = InteractionRecorder(sink, tmp_path / FILE, RecordingOptions(max_pending_bytes=2000))
    sink.gate.clear()
    with caplog.at_level(logging.ERROR):
        ask(recorder, 100)
    status = recorder.status()
    assert status.rejected > 0
    assert status.recorded + status.rejected == 200
    assert len([one for one in caplog.records if "not recorded" in one.message]) == 1
    sink.gate.set()
    assert recorder.close()
    assert len(sink.records) == status.recorded


def test_a_damaged_record_costs_itself_only(tmp_path: Path, sink: ListSink) -> None:
    sink.down = True
    first = InteractionRecorder(sink, tmp_path / FILE)
    ask(first, 5)
    first.close(timeout=0.1)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("UPDATE pending SET payload = '[1, \"half a' WHERE number = 3")
    sink.down = False
    with InteractionRecorder(sink, tmp_path / FILE) as second:
        ask(second, 1, start=70)
    assert len(sink.records) == 5 * 2 - 1 + 2
    assert "cannot be read" in str(examine_pending(tmp_path / FILE).findings)


def test_a_forked_child_records_and_its_parent_sends(tmp_path: Path, sink: ListSink) -> None:
    parent = InteractionRecorder(sink, tmp_path / FILE)
    ask(parent, 1)
    assert parent.flush()
    calls = sink.calls

    def work() -> None:
        ask(parent, 1, start=10)
        os._exit(0 if sink.calls == calls and not parent.flush(timeout=0.2) else 3)

    assert os.waitstatus_to_exitcode(os.waitpid(forked(work), 0)[1]) == 0
    assert parent.close()
    assert {"n0", "n10"} <= {one.content for one in sink.in_order()}


def test_a_full_disk_holds_records_in_memory_until_there_is_room(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path / FILE)
    sink.gate.clear()
    ask(recorder, 3)
    with files_of_at_most((tmp_path / f"{FILE}-wal").stat().st_size + 100):
        ask(recorder, 5, start=3)
        held = recorder.status()
    assert held.held == 10
    assert held.rejected == 0
    ask(recorder, 1, start=8)
    assert recorder.status().held == 0
    sink.gate.set()
    assert recorder.close()
    inputs = [one.content for one in sink.in_order() if one.kind.value == "input"]
    assert inputs == [f"n{number}" for number in range(9)]


def test_a_process_without_a_free_descriptor_goes_on_recording(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path / FILE, backoff=EAGER)
    ask(recorder, 1)
    assert recorder.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # No new file can be opened, whatever is open already.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        ask(recorder, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert recorder.close()
    assert len(sink.records) == 6


def test_a_record_that_the_store_refuses_holds_up_no_other_and_is_tried_again(tmp_path: Path) -> None:
    class Choosy(ListSink):
        def record(self, interactions: Sequence[Interaction]) -> None:
            if any(one.content == "n1" for one in interactions):
                raise ValueError("not this one")
            super().record(interactions)

    choosy = Choosy()
    recorder = InteractionRecorder(choosy, tmp_path / FILE, backoff=EAGER)
    ask(recorder, 3)
    assert recorder.flush()
    assert recorder.status().refused == 1
    assert len(choosy.records) == 5
    assert "not this one" in str(examine_pending(tmp_path / FILE).findings)
    recorder.close()
    sink = ListSink()
    with InteractionRecorder(sink, tmp_path / FILE):
        pass
    assert [one.content for one in sink.in_order()] == ["n1"]


def test_a_closed_recorder_takes_nothing_and_says_so(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path / FILE)
    with recorder.trace(), record_tool("t", "before") as call:
        assert recorder.close()
        call.output("after")
    assert [one.content for one in sink.in_order()] == ["before"]


def test_threads_record_in_the_order_of_their_calls(recorder: InteractionRecorder, sink: ListSink) -> None:
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda number: ask(recorder, 100, 1000 * number), range(8)))
    assert recorder.close()
    assert len(sink.records) == 8 * 200
    by_thread: dict[int, list[int]] = {}
    for one in sink.in_order():
        if one.kind.value == "input":
            by_thread.setdefault(int(one.content[1:]) // 1000, []).append(int(one.content[1:]))
    assert all(numbers == sorted(numbers) for numbers in by_thread.values())
    assert len({(one.event_time, one.sequence) for one in sink.records.values()}) == len(sink.records)


def test_interactions_survive_their_json_form() -> None:
    one = Interaction(
        id="1",
        conversation="c",
        trace="t",
        source=Participant("ann", ParticipantType.USER),
        target=Participant("bot", ParticipantType.AGENT),
        kind=InteractionKind.INPUT,
        content="你好 \ud83d\ude00",
        event_time=1_700_000_000.123456,
        sequence=3,
        pair_id="p",
        parent_id="0",
        params={"x": [1, None]},
        user="ann",
    )
    assert Interaction.from_json(one.to_json()) == one
    assert Interaction.load(one.dump()) == one
    assert one.to_json()["timestamp"] == "2023-11-14T22:13:20.123456+00:00"


def test_a_store_that_stands_still_delays_no_call(recorder: InteractionRecorder, sink: ListSink) -> None:
    sink.gate.clear()
    ask(recorder, 200)
    assert recorder.status().recorded == 400
    assert recorder.status().waiting_bytes > 0
    assert sink.records == {}
    sink.gate.set()
    assert recorder.close()
    assert len(sink.records) == 400


def test_recorders_of_two_threads_share_a_file_and_store_each_record_once(tmp_path: Path, sink: ListSink) -> None:
    first, second = (InteractionRecorder(sink, tmp_path / FILE, backoff=EAGER) for _ in range(2))
    ask(first, 20)
    ask(second, 20, start=50)
    assert first.flush()
    assert second.flush()
    assert len(sink.records) == 80
    assert first.close()
    assert second.close()


def test_what_is_held_is_written_when_the_recorder_is_closed(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path / FILE)
    with files_of_at_most(10):
        ask(recorder, 1)
    assert recorder.status().held == 2
    assert recorder.close()
    assert len(sink.records) == 2


def test_threads_share_a_full_file_without_losing_count(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path / FILE, RecordingOptions(max_pending_bytes=20_000))
    sink.gate.clear()
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda number: ask(recorder, 50, 100 * number), range(4)))
    status = recorder.status()
    assert status.recorded + status.rejected == 4 * 50 * 2
    sink.gate.set()
    assert recorder.close()
    assert len(sink.records) == status.recorded
