"""The cost of recording a call: of a function that is not recorded, of two lines written by hand, and of a recorder.

The cases take turns. The store sleeps at every write (`sleeping_store`, with answers of 8,100 characters `long_texts`),
or is a `conversation` store that works in the same process while calls are made (`conversation_store`).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TextIO

import numpy as np
import typer

import devmem
from devmem import record_tool
from devmem.recording import Interaction, InteractionRecorder
from devmem_stores.conversation import ConversationMemory
from tools.bench.rows import JsonFile, Row, report

_ROUNDS: Final = 10
_SLEEP: Final = 0.005
"""Seconds that a write of the sleeping store takes."""
_WORKFLOW: Final = "memory: [{name: global, type: conversation, config: {memory_path: global.db}}]\n"
_LONG: Final = "She said that the launch is on the second of June, and that the venue is booked. " * 100

Calls = Annotated[int, typer.Option(help="Calls of each case.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    call: Callable[[int], object]
    recorder: InteractionRecorder | None = None


class _SleepingStore:
    def record(self, interactions: Sequence[Interaction]) -> None:  # noqa: ARG002 - they are only waited for
        time.sleep(_SLEEP)


def command(calls: Calls = 20_000, json_file: JsonFile = None) -> None:
    """Measure what recording adds to a call: p50, p99, and CPU, the writing into the store included."""
    report(list(run(calls)), json_file)


def run(calls: int) -> Iterator[Row]:
    """Measure all cases; times are in ms."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        cases = _cases(Path(name), stack)
        times: dict[str, list[float]] = {case: [] for case in cases}
        cpu = dict.fromkeys(cases, 0.0)
        for _ in range(_ROUNDS):
            for name, case in cases.items():
                started = time.process_time()
                times[name] += _measure(case, calls // _ROUNDS)
                cpu[name] += time.process_time() - started
        p50 = {name: float(np.percentile(measured, 50)) for name, measured in times.items()}
        for name, measured in times.items():
            p99 = float(np.percentile(measured, 99))
            metrics = {"call_p50": p50[name], "call_p99": p99, "cpu_per_call": cpu[name] * 1000 / len(measured)}
            for metric, value in metrics.items():
                yield Row(bench="recording", case=name, metric=metric, value=value, unit="ms")
            ratio = p50[name] / p50["two_lines"]
            yield Row(bench="recording", case=name, metric="p50_to_two_lines", value=ratio, unit="ratio")


def _cases(folder: Path, stack: ExitStack) -> dict[str, _Case]:
    workflow = folder / "team.yaml"
    workflow.write_text(_WORKFLOW, encoding="utf-8")
    store = stack.enter_context(devmem.open_stores(devmem.load_workflow(workflow)))["global"]
    assert isinstance(store, ConversationMemory)
    sleeping, long, real = (
        stack.enter_context(InteractionRecorder(sink, folder / name))
        for name, sink in (("a", _SleepingStore()), ("b", _SleepingStore()), ("c", store))
    )

    @record_tool("calculator", input_field="number")
    def recorded(number: int) -> int:
        return 2 * number

    @record_tool("writer", input_field="number")
    def recorded_long(number: int) -> str:
        return f"{number}: {_LONG}"

    return {
        "unrecorded": _Case(call=lambda number: 2 * number),
        "two_lines": _Case(call=_TwoLines(stack.enter_context((folder / "lines.jsonl").open("a", encoding="utf-8")))),
        "sleeping_store": _Case(call=recorded, recorder=sleeping),
        "long_texts": _Case(call=recorded_long, recorder=long),
        "conversation_store": _Case(call=recorded, recorder=real),
    }


class _TwoLines:
    """Writes a line before the call and one after it, as a program without a recorder would."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __call__(self, number: int) -> int:
        self._write("input", number)
        self._write("output", 2 * number)
        return 2 * number

    def _write(self, kind: str, content: int) -> None:
        record = {"kind": kind, "time": time.time(), "source": "user", "target": "calculator", "content": content}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()


def _measure(case: _Case, count: int) -> list[float]:
    """Return the time of each call in ms, after which all records are stored."""
    measured = []
    with case.recorder.trace(conversation="c") if case.recorder else nullcontext():
        for number in range(count):
            started = time.perf_counter()
            case.call(number)
            measured.append((time.perf_counter() - started) * 1000)
    if case.recorder is not None and not case.recorder.flush(timeout=600):
        raise RuntimeError(f"the store did not take the records: {case.recorder.status()}")
    return measured
