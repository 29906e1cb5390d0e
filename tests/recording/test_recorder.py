"""The journal between recorded calls and the store: nothing acknowledged is lost, no call waits or fails."""

from __future__ import annotations

import logging
import os
import signal
import threading
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
from devmem.recording.journal import SUFFIX
from devmem.text.retry import Backoff
from tests.conftest import StartScript

from .conftest import ListSink

CHILD = """
import sys
from devmem.recording import InteractionRecorder, record_tool
class Never:
    def record(self, interactions): raise RuntimeError("down")
recorder = InteractionRecorder(Never(), sys.argv[1])
with recorder.trace(conversation="c"):
    for number in range(100000):
        with record_tool("t", f"n{number}") as call:
            call.output(number)
        print(number, flush=True)
"""


def ask(recorder: InteractionRecorder, count: int, start: int = 0) -> None:
    with recorder.trace(conversation="c"):
        for number in range(start, start + count):
            with record_tool("t", f"n{number}") as call:
                call.output(number)


def test_a_store_that_stands_still_delays_no_call(recorder: InteractionRecorder, sink: ListSink) -> None:
    sink.gate.clear()
    ask(recorder, 200)
    assert recorder.status().recorded == 400
    assert recorder.status().waiting_bytes > 0
    assert sink.records == {}
    sink.gate.set()
    assert recorder.close()
    assert len(sink.records) == 400


def test_a_store_that_fails_gets_everything_later(sink: ListSink, tmp_path: Path) -> None:
    now = [0.0]
    recorder = InteractionRecorder(sink, tmp_path, backoff=Backoff(clock=lambda: now[0]))
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
        process = start_script(CHILD, tmp_path)
        assert process.stdout is not None
        for _ in range(50):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with InteractionRecorder(sink, tmp_path) as recorder:
        ask(recorder, 1, start=900_000)
    inputs = [one.content for one in sink.in_order() if one.kind.value == "input"]
    for number in range(50):
        assert inputs.count(f"n{number}") == 3
    assert list(tmp_path.glob(f"*{SUFFIX}")) == []


def test_a_journal_of_a_living_process_is_left_alone(tmp_path: Path, sink: ListSink) -> None:
    first, other = InteractionRecorder(sink, tmp_path), ListSink()
    sink.gate.clear()
    ask(first, 2)
    with InteractionRecorder(other, tmp_path) as second:
        ask(second, 1, start=50)
    assert [one.content for one in other.in_order()] == ["n50", "50"]
    sink.gate.set()
    assert first.close()


def test_a_full_journal_counts_what_it_does_not_take(
    sink: ListSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = InteractionRecorder(sink, tmp_path, RecordingOptions(max_journal_bytes=2000))
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


def test_a_damaged_line_costs_itself_only(tmp_path: Path, sink: ListSink) -> None:
    sink.down = True
    first = InteractionRecorder(sink, tmp_path)
    ask(first, 5)
    first.close(timeout=0.1)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data + b"00000000 [half a li")
    sink.down = False
    with InteractionRecorder(sink, tmp_path) as second:
        ask(second, 1, start=70)
    assert len(sink.records) == 5 * 2 - 1 + 2


def test_a_forked_child_has_a_journal_of_its_own(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path)
    sink.gate.clear()
    ask(recorder, 1)
    pid = os.fork()
    if pid == 0:
        try:
            ask(recorder, 1, start=10)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 2
    sink.gate.set()
    assert recorder.close()
    with InteractionRecorder(sink, tmp_path) as last:
        ask(last, 1, start=20)
    assert sorted(one.content for one in sink.in_order() if one.kind.value == "input") == ["n0", "n10", "n20"]


def test_threads_record_in_the_order_of_their_calls(recorder: InteractionRecorder, sink: ListSink) -> None:
    threads = [threading.Thread(target=ask, args=(recorder, 100, 1000 * number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
    assert Interaction.from_row(one.to_row()) == one
    assert one.to_json()["timestamp"] == "2023-11-14T22:13:20.123456+00:00"
