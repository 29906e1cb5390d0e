"""Who owns a journal: processes, forked children, and those that come after a killed one."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from devmem import record_tool
from devmem.errors import JournalError
from devmem.recording import Interaction, InteractionRecorder, RecordingOptions, journal_folder, waiting_records
from devmem.recording.journal import SUFFIX, Journal, abandoned_journals, encode_line
from devmem.text.retry import Backoff

from .conftest import ListSink
from .test_recorder import ask

EAGER = Backoff(first=0.001, longest=0.001)


def forked(work: object) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()  # type: ignore[operator]
        finally:
            os._exit(0)
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


def test_a_journal_stays_its_parents_after_a_fork(tmp_path: Path, sink: ListSink) -> None:
    """A child that ends, or drops what it inherited, must not release its parent's lock."""
    sink.gate.clear()
    parent = InteractionRecorder(sink, tmp_path)
    ask(parent, 1)
    os.waitpid(forked(lambda: ask(parent, 1, start=10)), 0)
    in_use = {state.path: state.in_use for state in waiting_records(tmp_path).journals}
    assert sorted(in_use.values()) == [False, True]
    other = ListSink()
    with InteractionRecorder(other, tmp_path) as neighbour:
        assert neighbour.flush()
    assert {one.content for one in other.in_order()} == {"n10", "10"}, "only the child's"
    sink.gate.set()
    assert parent.close()
    assert waiting_records(tmp_path).journals == ()


def test_a_forked_child_does_not_touch_the_parents_store(tmp_path: Path, sink: ListSink) -> None:
    parent = InteractionRecorder(sink, tmp_path)
    ask(parent, 1)
    assert parent.flush()

    def work() -> None:
        ask(parent, 1, start=10)
        parent.flush(timeout=0.2)
        os._exit(0 if sink.calls == calls and not parent.flush(timeout=0.2) else 3)

    calls = sink.calls
    _, status = os.waitpid(forked(work), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    parent.close()
    with InteractionRecorder(sink, tmp_path) as later:
        assert later.flush()
    assert {"n0", "n10"} <= {one.content for one in sink.in_order()}


def test_what_waits_is_listed(tmp_path: Path, sink: ListSink) -> None:
    folder = journal_folder(tmp_path / "global.db")
    assert folder == tmp_path / "global.db.journals"
    assert waiting_records(folder).journals == ()
    sink.gate.clear()
    recorder = InteractionRecorder(sink, folder)
    ask(recorder, 2)
    (state,) = waiting_records(folder).journals
    assert state.in_use
    assert state.waiting_bytes == recorder.status().waiting_bytes > 0
    sink.gate.set()
    assert recorder.close()


def test_a_full_disk_holds_records_in_memory_until_there_is_room(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path)
    sink.gate.clear()
    ask(recorder, 3)
    with files_of_at_most(next(tmp_path.glob(f"*{SUFFIX}")).stat().st_size + 100):
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
    recorder = InteractionRecorder(sink, tmp_path, backoff=EAGER)
    ask(recorder, 1)
    assert recorder.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # No new file can be opened, whatever is open already.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        ask(recorder, 2)
        assert recorder.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(sink.records) == 6
    assert recorder.close()


def test_a_journal_whose_folder_was_deleted_is_still_sent(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path / "journals", backoff=EAGER)
    sink.gate.clear()
    ask(recorder, 1)
    shutil.rmtree(tmp_path / "journals")
    sink.gate.set()
    ask(recorder, 2)
    assert recorder.close()
    assert len(sink.records) == 6


def test_a_journal_that_cannot_be_read_for_a_while_is_sent_afterwards(
    tmp_path: Path, sink: ListSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = InteractionRecorder(sink, tmp_path, backoff=EAGER)
    ask(recorder, 1)
    assert recorder.flush()
    with monkeypatch.context() as broken:
        broken.setattr(Journal, "next_batch", _unreadable)
        ask(recorder, 2)
        assert not recorder.flush(0.2)
        assert "Input/output error" in recorder.status().failure
    assert recorder.close()
    assert len(sink.records) == 6


def _unreadable(_: Journal, limit: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_process_that_can_start_no_thread_records_and_sends_later(
    tmp_path: Path, sink: ListSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    recorder = InteractionRecorder(sink, tmp_path, backoff=EAGER)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        ask(recorder, 1)
    assert recorder.status().recorded == 2
    ask(recorder, 1)
    assert recorder.close()
    assert len(sink.records) == 4


def test_what_is_held_is_written_when_the_recorder_is_closed(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path)
    with files_of_at_most(10):
        ask(recorder, 1)
    assert recorder.close()
    assert len(sink.records) == 2


def test_a_record_that_the_store_refuses_holds_up_no_other(tmp_path: Path, sink: ListSink) -> None:
    class Choosy(ListSink):
        def record(self, interactions: Sequence[Interaction]) -> None:
            if any(one.content == "n1" for one in interactions):
                raise ValueError("not this one")
            super().record(interactions)

    choosy = Choosy()
    recorder = InteractionRecorder(choosy, tmp_path, backoff=EAGER)
    ask(recorder, 3)
    assert recorder.flush()
    assert recorder.status().refused == 1
    assert len(choosy.records) == 5
    refused = (tmp_path / "refused.jsonl").read_text(encoding="ascii")
    assert '"content": "n1"' in refused
    assert "not this one" in refused
    assert waiting_records(tmp_path).refused == 1
    recorder.close()


def test_a_closed_recorder_takes_nothing_and_says_so(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path)
    with recorder.trace(), record_tool("t", "before") as call:
        assert recorder.close()
        call.output("after")
    assert [one.content for one in sink.in_order()] == ["before"]
    assert recorder.status().held == 0
    assert recorder.status().rejected == 1
    assert waiting_records(tmp_path).journals == ()


def test_threads_share_a_full_journal_without_losing_count(tmp_path: Path, sink: ListSink) -> None:
    recorder = InteractionRecorder(sink, tmp_path, RecordingOptions(max_journal_bytes=20_000))
    sink.gate.clear()
    threads = [threading.Thread(target=ask, args=(recorder, 50, 100 * number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = recorder.status()
    assert status.recorded + status.rejected == 4 * 50 * 2
    sink.gate.set()
    assert recorder.close()
    assert len(sink.records) == status.recorded


@pytest.mark.parametrize("left", ["", "17", "no number"])
def test_a_lost_position_sends_again_what_is_stored_once(tmp_path: Path, sink: ListSink, left: str) -> None:
    sink.down = True
    first = InteractionRecorder(sink, tmp_path)
    ask(first, 3)
    first.close(timeout=0.1)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    Path(f"{path}.position").write_text(left, encoding="ascii")
    sink.down = False
    with InteractionRecorder(sink, tmp_path) as second:
        assert second.flush()
    assert len(sink.records) >= 5
    assert waiting_records(tmp_path).journals == ()


class Untruncatable:
    """A file that cannot be made shorter."""

    def __init__(self, file: FileIO) -> None:
        self._file = file

    def truncate(self, size: int) -> int:
        raise OSError(5, f"cannot be cut to {size} bytes")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_line_behind_one_that_was_cut_off_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, max_bytes=1 << 20)
    monkeypatch.setattr(journal, "_file", Untruncatable(journal._file))
    with files_of_at_most(10), pytest.raises(JournalError, match="the disk is full"):
        journal.append(encode_line(["first"]))
    assert journal.append(encode_line(["second"]))
    batch = journal.next_batch(10)
    assert batch is not None
    assert batch.records == [["second"]]
    journal.close()


def test_a_journal_is_kept_until_the_store_has_all_of_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_bytes=1000)
    for text in ("tea", "rain"):
        assert journal.append(encode_line([text]))
    journal.close()
    seen: list[object] = []
    for acknowledged in (False, True, True):
        for left in abandoned_journals(tmp_path):
            batch = left.next_batch(1)
            assert batch is not None
            seen += batch.records
            if acknowledged:
                left.acknowledge(batch.end)
    assert seen == [["tea"], ["tea"], ["rain"]]
    assert list(tmp_path.iterdir()) == []
