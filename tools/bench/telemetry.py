"""The cost of OpenTelemetry to a search: off, with a sampler that drops every span, and with spans and metric kept.

A request is dropped with everything in it, or the search itself is the root that the sampler is asked about.
The four take turns, and the time is this process's own on the CPU: what else runs disturbs all alike, and little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

import devmem
from devmem import telemetry
from tools.bench.rows import JsonFile, Row, report

_WORDS = "launch venue band budget train hotel printer coffee garden lecture museum ticket guitar river".split()
_ITEMS = 10_000
_SEARCHES = 1_000
_OPERATIONS = 5_000
_KINDS = ("off", "dropped", "dropped at the root", "recorded")


_DROPPING = TracerProvider(sampler=ParentBased(ALWAYS_OFF))


def command(json_file: JsonFile = None) -> None:
    """Measure searches of 10,000 texts by words and by meaning, without telemetry and with it."""
    report(list(run()), json_file)


def run() -> Iterator[Row]:
    """Measure each question in all ways, one after the other, then the operation alone that surrounds a search."""
    dropping = _dropping()
    kinds = dict(zip(_KINDS, (telemetry.disable, dropping, dropping, _recording()), strict=True))
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    with TemporaryDirectory() as folder, devmem.open(Path(folder) / "notes.db") as memory:
        memory.add([f"{_WORDS[at % 14]} {_WORDS[at // 14 % 14]} number {at}" for at in range(_ITEMS)])
        for at in range(_SEARCHES):
            query = f"{_WORDS[at % 14]} {_WORDS[at // 3 % 14]}"
            memory.search(query)  # what the first of them would have to fetch
            for place in range(len(_KINDS)):
                kind = _KINDS[(at + place) % len(_KINDS)]
                kinds[kind]()
                with _request() if kind == "dropped" else nullcontext():
                    times[kind].append(_timed(partial(memory.search, query)))
    for kind, found in times.items():
        kinds[kind]()
        yield Row(bench="telemetry", case=kind, metric="search", value=median(found), unit="ms")
        with _request() if kind == "dropped" else nullcontext():
            alone = median(_timed(_operation) for _ in range(_OPERATIONS))
        yield Row(bench="telemetry", case=kind, metric="operation", value=alone, unit="ms")
    for kind in _KINDS[1:]:
        ratio = median(one / off for one, off in zip(times[kind], times["off"], strict=True))
        yield Row(bench="telemetry", case=kind, metric="search_to_off", value=ratio, unit="ratio")
    telemetry.disable()


def _request() -> AbstractContextManager[object]:
    """Return the span of a request around a search, which the sampler dropped."""
    return _DROPPING.get_tracer("request").start_as_current_span("request")


def _timed(call: Callable[[], object]) -> float:
    """Time a call in ms."""
    started = time.process_time()
    call()
    return (time.process_time() - started) * 1000


def _operation() -> None:
    with telemetry.memory_operation("search_memory", "notes", query="launch") as operation:
        operation.records(5, tuple)


def _dropping() -> Callable[[], None]:
    return _switch(_DROPPING, NoOpMeterProvider())


def _recording() -> Callable[[], None]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return _switch(provider, MeterProvider(metric_readers=[InMemoryMetricReader()]))


def _switch(tracers: TracerProvider, meters: AnyMeterProvider) -> Callable[[], None]:
    """Return what turns telemetry on again without making its instruments again, which would cost the next search."""
    telemetry.enable(tracer_provider=tracers, meter_provider=meters)
    return partial(setattr, telemetry, "_on", telemetry._on)  # noqa: SLF001 - a program has one telemetry
