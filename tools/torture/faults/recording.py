"""Recording: whole teams in several processes, kills in mid-run, a full file and a full disk."""

from __future__ import annotations

import resource
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from devmem import record_tool
from devmem.recording import Interaction, InteractionRecorder, RecordingOptions, pending_file
from devmem.storage import examine_pending
from devmem.text.retry import Backoff
from devmem_stores.conversation import ConversationMemory
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.results import Plan, Result
from tools.torture.stores import opened, prepare
from tools.torture.team import RECORDS_PER_RUN, faults_of, run_team

_PROCESSES: Final = 4
_THREADS: Final = 8
_CONVERSATION: Final = "torture"
_SECONDS: Final = 120.0

Work = Callable[[Callable[[str], None]], None]


def run(plan: Plan) -> list[Result]:
    """Record teams, kill recorders, and leave them no room."""
    return [_teams(plan), _kills(plan), _full(plan, "file"), _full(plan, "disk")]


def _teams(plan: Plan) -> Result:
    """Run teams in threads and processes that share a store and the file of what waits."""
    result = Result(fault="recorded teams")
    folder = prepare(plan.folder / "teams", "conversation")
    runs = plan.extent(short=1, full=11)
    with _recording(folder):
        pass
    children = [Child(_teams_of(folder, process, runs)) for process in range(_PROCESSES)]
    for child in children:
        with child:
            child.finish()
        if child.status:
            result.fail("unrecovered", f"a process ended with exit code {child.status}")
    keys = [f"p{p}t{t}r{r}" for p in range(_PROCESSES) for t in range(_THREADS) for r in range(runs)]
    by_trace: dict[str, list[Interaction]] = defaultdict(list)
    for one in _stored(folder):
        by_trace[one.trace].append(one)
    result.tried, result.acknowledged = len(keys), RECORDS_PER_RUN * len(keys)
    for key in keys:
        records = by_trace.pop(key, [])
        if (missing := RECORDS_PER_RUN - len(records)) > 0:
            result.fail("lost", f"{key}: {missing} of {RECORDS_PER_RUN} records", missing)
        elif missing < 0:
            result.fail("doubled", f"{key}: {-missing} records too many", -missing)
        for fault in faults_of(key, records):
            result.fail("wrong", f"{key}: {fault}")
    if by_trace:
        result.fail("leaked", f"traces that nobody ran: {sorted(by_trace)[:3]}", len(by_trace))
    return result


def _teams_of(folder: Path, process: int, runs: int) -> Work:
    def work(send: Callable[[str], None]) -> None:
        def thread(number: int) -> None:
            for run in range(runs):
                run_team(recorder, _CONVERSATION, f"p{process}t{number}r{run}")

        with _recording(folder) as recorder:
            threads = [threading.Thread(target=thread, args=(number,)) for number in range(_THREADS)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            send("flushed" if recorder.flush(_SECONDS) else "not flushed")

    return work


def _kills(plan: Plan) -> Result:
    """Kill processes in mid-run; the next one on the same folder stores what the killed ones recorded."""
    result, chance = Result(fault="kills of recorders"), plan.random("recording kills")
    folder = prepare(plan.folder / "kills", "conversation")
    acknowledged: set[str] = set()
    for kill in range(plan.extent(short=3, full=50)):
        with Child(_caller(folder, f"k{kill}c", 100_000)) as child:
            child.wait_for_lines(chance.randrange(1, 300), _SECONDS)
            acknowledged |= set(child.kill())
        result.tried += 1
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"seed {plan.seed}, kill {kill}: the recorder failed before it was killed")
    result.acknowledged = 2 * len(acknowledged)
    _finish(folder, result)
    _judge(folder, acknowledged, result)
    return result


def _full(plan: Plan, what: str) -> Result:
    """Leave no room in the file or on the disk for a while; what was acknowledged, and what follows, is stored."""
    result, chance = Result(fault=f"recording with a full {what}"), plan.random("recording", what)
    for trial in range(plan.extent(short=2, full=20)):
        folder = prepare(plan.folder / f"{what}-{trial}", "conversation")
        room = chance.randrange(2_000, 60_000)
        with Child(_caller_without_room(folder, what, room)) as child:
            said = child.finish()
        result.tried += 1
        if child.status or "counted" not in said:
            result.fail("unrecovered", f"seed {plan.seed}, {room} bytes: {said[-1:]} and exit code {child.status}")
        acknowledged = {line for line in said if line.startswith("c")} - {"counted"}
        result.acknowledged += 2 * len(acknowledged)
        _finish(folder, result)
        _judge(folder, acknowledged, result)
    return result


def _caller(folder: Path, prefix: str, count: int) -> Work:
    def work(send: Callable[[str], None]) -> None:
        with _recording(folder) as recorder:
            for number in range(count):
                _call(recorder, f"{prefix}{number}")
                send(f"{prefix}{number}")

    return work


def _caller_without_room(folder: Path, what: str, room: int) -> Work:
    def work(send: Callable[[str], None]) -> None:
        options = RecordingOptions(max_pending_bytes=room) if what == "file" else RecordingOptions()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with _recording(folder, options) as recorder:
            _call(recorder, "first")
            recorder.flush(_SECONDS)
            if what == "disk":
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
            for number in range(400):
                before = recorder.status()
                _call(recorder, f"c{number}")
                if recorder.status().recorded - before.recorded == 2:
                    send(f"c{number}")
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            recorder.flush(_SECONDS)
            _call(recorder, "clast")
            status = recorder.status()
            taken = status.recorded + status.held + status.rejected
            send("counted" if taken == 2 * 402 else f"{taken} of 804 are counted: {status}")
            send("clast")
            if status.rejected == 0:
                for number in range(400):
                    send(f"c{number}")

    return work


def _call(recorder: InteractionRecorder, key: str) -> None:
    with recorder.trace(conversation=_CONVERSATION, trace=key), record_tool("tool", key) as call:
        call.output(key)


def _finish(folder: Path, result: Result) -> None:
    """Have one more recorder send what earlier processes left."""
    with Child(_caller(folder, "last", 0)) as child:
        child.finish()
    left = examine_pending(pending_file(folder / "store.db"))
    if child.status or left.findings:
        result.fail("unrecovered", f"exit code {child.status}; {left}")


def _judge(folder: Path, acknowledged: set[str], result: Result) -> None:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in _stored(folder):
        found[one.trace][one.kind.value] += 1
    for key in acknowledged:
        if (missing := 2 - len(found[key])) > 0:
            result.fail("lost", f"{folder.name}: {missing} records of the call {key}", missing)
    if doubled := [key for key, kinds in found.items() if max(kinds.values(), default=1) > 1]:
        result.fail("doubled", f"{folder.name}: {doubled[:3]}", len(doubled))


def _stored(folder: Path) -> Sequence[Interaction]:
    with opened(folder) as store:
        assert isinstance(store, ConversationMemory)
        return store.log(_CONVERSATION)


@contextmanager
def _recording(folder: Path, options: RecordingOptions | None = None) -> Iterator[InteractionRecorder]:
    with opened(folder) as store:
        assert isinstance(store, ConversationMemory)
        backoff = Backoff(first=0.05, longest=0.2)
        with InteractionRecorder(store, pending_file(folder / "store.db"), options, backoff=backoff) as recorder:
            recorder.flush(_SECONDS)
            yield recorder
