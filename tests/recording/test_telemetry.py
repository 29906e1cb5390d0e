"""OpenTelemetry's spans and metric, by the names of the semantic conventions for generative AI."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

import devmem
from devmem import WorkflowRunner, load_workflow, open_stores, record_knowledge, record_tool, telemetry
from devmem.errors import ItemNotFoundError
from devmem.storage import Filter

TEAM = """\
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db}}
  - {name: log, type: conversation, config: {memory_path: log.db}}
conversation: {store: log, types: [agent, llm, tool]}
nodes:
  - id: helper
    type: agent
    config: {memories: [{name: notes, retrieve_stage: [gen]}]}
"""


class Observed:
    """The spans and the metric that were exported."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider(metric_readers=[self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def enable(self, *, contents: bool = False) -> None:
        telemetry.enable(tracer_provider=self.tracers, meter_provider=self.meters, contents=contents)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        return next(span for span in self.spans if span.name == name)

    def attributes(self, name: str) -> dict[str, Any]:
        return dict(self.span(name).attributes or {})

    def points(self) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        (metric,) = (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics)
        assert (metric.name, metric.unit) == ("gen_ai.client.operation.duration", "s")
        return list(metric.data.data_points)


@pytest.fixture
def observed() -> Iterator[Observed]:
    found = Observed()
    found.enable()
    yield found
    telemetry.disable()


def test_every_operation_on_a_memory_is_a_span_of_the_conventions(observed: Observed, tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("The launch is on June 2nd.", id="launch")
        memory.add(["The venue is booked.", "The band is not."])
        memory.update("launch", "The launch is on June 9th.")
        memory.search("launch")
        memory.forget("launch")
    assert [span.name for span in observed.spans] == [
        "create_memory_store",
        "upsert_memory",
        "create_memory",
        "update_memory",
        "search_memory",
        "delete_memory",
    ]
    for span in observed.spans:
        attributes = dict(span.attributes or {})
        assert span.kind is SpanKind.INTERNAL
        assert attributes["gen_ai.operation.name"] == span.name
        assert attributes["gen_ai.provider.name"] == "devmem"
        assert "notes" in str(attributes["gen_ai.memory.store.id"])
        assert "server.address" not in attributes
        assert not {"gen_ai.memory.query.text", "gen_ai.memory.records"} & attributes.keys()
    counts = {span.name: (span.attributes or {}).get("gen_ai.memory.record.count") for span in observed.spans}
    assert counts == {
        "create_memory_store": None,
        "upsert_memory": 1,
        "create_memory": 2,
        "update_memory": 1,
        "search_memory": 1,
        "delete_memory": 1,
    }
    assert [observed.attributes(name).get("gen_ai.memory.record.id") for name in list(counts)[1:]] == [
        "launch", None, "launch", None, "launch",
    ]  # fmt: skip


def test_texts_are_attributes_on_opt_in_alone(observed: Observed, tmp_path: Path) -> None:
    observed.enable(contents=True)
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        launch = memory.add("The launch is on June 2nd.")
        memory.search("launch")
    found = observed.attributes("search_memory")
    assert found["gen_ai.memory.query.text"] == "launch"
    assert json.loads(found["gen_ai.memory.records"]) == [{"id": launch, "content": "The launch is on June 2nd."}]


def test_an_error_is_named_without_its_text(observed: Observed, tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory, pytest.raises(ItemNotFoundError):
        memory.update("secret-id-of-ann", "text")
    span = observed.span("update_memory")
    assert (span.attributes or {})["error.type"] == "devmem.errors.ItemNotFoundError"
    assert span.status.status_code is StatusCode.ERROR
    assert (span.status.description, span.events) == (None, ())
    (failed,) = (point for point in observed.points() if "error.type" in point.attributes)
    assert failed.attributes["gen_ai.operation.name"] == "update_memory"


def test_the_metric_has_the_duration_and_no_ids(observed: Observed, tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("The venue is booked.", user="ann")
        memory.search("venue", user="ann")
        memory.search("band", user="ann")
    points = {point.attributes["gen_ai.operation.name"]: point for point in observed.points()}
    assert points["search_memory"].count == 2
    assert 0 < points["search_memory"].sum < 60
    assert points["search_memory"].explicit_bounds[:3] == (0.01, 0.02, 0.04)
    assert set(points["search_memory"].attributes) == {"gen_ai.operation.name", "gen_ai.provider.name"}


def test_a_store_behind_a_service_is_a_client_with_its_address(observed: Observed) -> None:
    address = "postgresql://ann:secret@db.example.com:6432/notes"
    with telemetry.memory_operation("search_memory", "notes", (address,)):
        pass
    span = observed.span("search_memory")
    assert span.kind is SpanKind.CLIENT
    attributes = dict(span.attributes or {})
    assert (attributes["server.address"], attributes["server.port"]) == ("db.example.com", 6432)
    assert "secret" not in str(attributes)


def test_a_run_is_a_tree_of_spans_and_its_records_have_the_id_of_the_trace(observed: Observed, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(TEAM)
    workflow = load_workflow(tmp_path / "team.yaml")
    outer = observed.tracers.get_tracer("test")
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores) as runner:
        with outer.start_as_current_span("request") as request:
            result = runner.run("Ann moved the launch to June 2nd.")
        trace = f"{request.get_span_context().trace_id:032x}"
        assert result.trace == trace
        assert {item.scope.trace for item in stores["notes"].recent(9)} == {trace}
        runner.close()
        assert {item.scope.trace for item in stores["log"].recent(9)} == {trace}
    parents = {span.context.span_id: span.name for span in observed.spans if span.context}
    tree = {span.name: parents.get(span.parent.span_id) for span in observed.spans if span.parent}
    assert tree == {
        "invoke_workflow team": "request",
        "invoke_agent helper": "invoke_workflow team",
        "search_memory": "invoke_agent helper",
        "chat extractive": "invoke_agent helper",
        "create_memory": "invoke_agent helper",
    }
    chat = observed.attributes("chat extractive")
    assert (chat["gen_ai.operation.name"], chat["gen_ai.provider.name"]) == ("chat", "extractive")
    assert observed.attributes("invoke_agent helper")["gen_ai.agent.name"] == "helper"


def test_what_happens_in_a_dropped_request_is_dropped_and_still_measured(observed: Observed, tmp_path: Path) -> None:
    dropping = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    dropping.add_span_processor(SimpleSpanProcessor(observed.exporter))
    telemetry.enable(tracer_provider=dropping, meter_provider=observed.meters)
    with dropping.get_tracer("test").start_as_current_span("request") as request:
        with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
            memory.add("The venue is booked.")
            (found,) = memory.search("venue")
        assert get_current_span() is request
    assert observed.spans == []
    assert {point.attributes["gen_ai.operation.name"] for point in observed.points()} == {
        "create_memory_store", "create_memory", "search_memory",
    }  # fmt: skip
    assert found.item.scope.trace == f"{request.get_span_context().trace_id:032x}"


def test_calls_are_spans_without_a_recorder_and_their_errors_too(observed: Observed) -> None:
    @record_tool("calculator")
    def divide(x: int) -> float:
        with record_knowledge("numbers"):
            return 1 / x

    assert list(map(divide, [1])) == [1.0]
    with pytest.raises(ZeroDivisionError):
        divide(0)
    names = [span.name for span in observed.spans]
    assert names == ["retrieval numbers", "execute_tool calculator"] * 2
    assert (observed.spans[-1].attributes or {})["error.type"] == "ZeroDivisionError"
    inner, whole = observed.spans[:2]
    assert inner.parent is not None
    assert whole.context is not None
    assert inner.parent.span_id == whole.context.span_id


def test_nothing_is_emitted_or_imported_until_it_is_enabled(tmp_path: Path) -> None:
    program = (
        "import sys, devmem\n"
        f"with devmem.open({str(tmp_path / 'notes.db')!r}, embedding=None) as memory:\n"
        "    memory.add('The venue is booked.')\n"
        "    memory.search('venue')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(devmem.errors.MissingExtraError, match=r"\[otel\]"):
        telemetry.enable()


def test_the_program_of_opentelemetry_finds_it() -> None:
    (found,) = entry_points(group="opentelemetry_instrumentor", name="devmem")
    instrumentor = found.load()()
    instrumentor.instrument(tracer_provider=None)
    assert telemetry.is_enabled()
    instrumentor.uninstrument()
    assert not telemetry.is_enabled()


def test_logs_have_no_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "team.yaml").write_text(TEAM)
    workflow = load_workflow(tmp_path / "team.yaml")
    caplog.set_level(logging.DEBUG, logger="devmem")
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores) as runner:
        runner.run("The xylophone is purple.")
        runner.run("Which colour has the xylophone?")
        stores["notes"].erase(where=Filter())
    assert "notes" in caplog.text
    assert "xylophone" not in caplog.text
