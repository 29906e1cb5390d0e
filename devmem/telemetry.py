"""OpenTelemetry: spans of memory operations, agents, tools and chat calls, and the metric of their duration.

Nothing is emitted, and `opentelemetry` is not imported, until `enable` is called. The names are those of the semantic
conventions for generative AI (status: development). Texts of memories and queries are attributes on opt-in alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from devmem.errors import MissingExtraError, installed_version

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

MemoryOperationName: TypeAlias = Literal[
    "create_memory_store",
    "search_memory",
    "create_memory",
    "update_memory",
    "upsert_memory",
    "delete_memory",
    "delete_memory_store",
]
CallKind: TypeAlias = Literal["workflow", "agent", "tool", "knowledge", "llm"]
Record: TypeAlias = tuple[str, str]
"""Id and text of a memory."""
_Value: TypeAlias = str | int
_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "workflow": ("invoke_workflow", "gen_ai.workflow.name"),
    "agent": ("invoke_agent", "gen_ai.agent.name"),
    "tool": ("execute_tool", "gen_ai.tool.name"),
    "knowledge": ("retrieval", "gen_ai.data_source.id"),
    "llm": ("chat", "gen_ai.request.model"),
}
"""Operation of each kind of call, and the attribute with the callee's name."""
_PROVIDER: Final = "devmem"
_CONTENTS: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable that opts in to contents, as for other instrumentations of generative AI."""
_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
"""Bounds in seconds that the conventions advise."""
_IN_METRIC: Final = frozenset(
    {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "server.address", "server.port"}
)
"""Attributes of the metric; others, such as ids, have too many values."""
_DROPS_WITH_PARENT: Final = "localParentNotSampled:AlwaysOffSampler"
"""Part of the description of the SDK's usual sampler, which drops what begins in a dropped span."""
_PORTS: Final = {"http": 80, "https": 443, "postgres": 5432, "postgresql": 5432, "redis": 6379, "rediss": 6379}


class OperationSpan:
    """An operation that is not observed; `with` does nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""

    def attach(self) -> Token[Context] | None:
        """Make it the parent of what begins until `detach`, which takes what this returns."""
        return None

    def detach(self, token: Token[Context] | None) -> None:
        """Undo `attach`."""

    def end(self, error: BaseException | None = None) -> None:
        """End it, once; an operation that is used by `with` ends by itself."""

    def annotate(self, attributes: Mapping[str, _Value]) -> None:
        """Add attributes of the conventions."""

    def records(self, count: int, records: Callable[[], Iterable[Record]]) -> None:
        """Set how many memories were found, stored or deleted; `records` is called where contents are opted in."""


UNOBSERVED: Final = OperationSpan()
"""Any operation while telemetry is off."""


class _Telemetry:
    """Tracer and histogram, while telemetry is on."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None, contents: bool) -> None:
        from opentelemetry import context, metrics, trace

        self.contents = contents
        self.tracer: Tracer = trace.get_tracer(_PROVIDER, installed_version(), tracers)
        meter = metrics.get_meter(_PROVIDER, installed_version(), meters)
        self.duration: Histogram = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self.attach, self.detach, self.context_of = context.attach, context.detach, trace.set_span_in_context
        self.current_span = trace.get_current_span
        self.client, self.internal, self.failed = trace.SpanKind.CLIENT, trace.SpanKind.INTERNAL, trace.StatusCode.ERROR
        # A global provider that is set later stands behind a proxy, whose tracer shows no sampler.
        describe = getattr(getattr(self.tracer, "sampler", None), "get_description", None)
        sampler = str(describe()) if callable(describe) else ""
        self._follows_parent = sampler.startswith("ParentBased{") and _DROPS_WITH_PARENT in sampler

    def dropped_parent(self) -> Span | None:
        """Return the surrounding span where what begins in it is dropped like itself; None where that is open.

        Asking the sampler again would cost more than the rest of an operation.
        """
        if not self._follows_parent:
            return None
        span = self.current_span()
        context = span.get_span_context()
        return None if context.trace_flags.sampled or context.is_remote or not context.is_valid else span


class _Observed(OperationSpan):
    """An operation with a span, and with a duration in the metric."""

    __slots__ = ("_attributes", "_begin", "_is_measured", "_is_own", "_on", "_span", "_token")

    def __init__(
        self, on: _Telemetry, name: str, attributes: dict[str, _Value], *, is_client: bool, is_measured: bool
    ) -> None:
        self._on, self._attributes, self._is_measured = on, attributes, is_measured
        self._span: Span | None = on.dropped_parent()
        self._is_own = self._span is None
        if self._span is None:
            kind = on.client if is_client else on.internal
            self._span = on.tracer.start_span(name, kind=kind, attributes=attributes)
        self._token: Token[Context] | None = None
        self._begin = time.perf_counter()

    def __enter__(self) -> Self:
        self._token = self.attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.detach(self._token)
        self.end(error)

    def attach(self) -> Token[Context] | None:
        if self._span is None or not self._is_own:
            return None
        return self._on.attach(self._on.context_of(self._span))

    def detach(self, token: Token[Context] | None) -> None:
        if token is not None:
            self._on.detach(token)

    def end(self, error: BaseException | None = None) -> None:
        if self._span is None:
            return
        span, self._span = self._span, None
        failed = {} if error is None else {"error.type": _type_of(error)}
        if error is not None and span.is_recording():
            # An error's text may quote a memory.
            span.set_attributes(failed)
            span.set_status(self._on.failed)
        if self._is_measured:
            labels = {key: value for key, value in self._attributes.items() if key in _IN_METRIC}
            self._on.duration.record(time.perf_counter() - self._begin, {**labels, **failed})
        if self._is_own:
            span.end()

    def annotate(self, attributes: Mapping[str, _Value]) -> None:
        self._attributes.update(attributes)
        if self._span is not None and self._span.is_recording():
            self._span.set_attributes(attributes)

    def records(self, count: int, records: Callable[[], Iterable[Record]]) -> None:
        if self._span is None or not self._span.is_recording():
            return
        self._span.set_attribute("gen_ai.memory.record.count", count)
        if self._on.contents:
            shown = [{"id": item, "content": text} for item, text in records()]
            self._span.set_attribute("gen_ai.memory.records", json.dumps(shown, ensure_ascii=False))


def _type_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


_on: _Telemetry | None = None


def enable(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    contents: bool | None = None,
) -> None:
    """Emit spans and the metric from now on, in this process.

    Args:
        tracer_provider: takes the spans; None is the global one, which the OpenTelemetry SDK sets.
        meter_provider: takes the metric; None is the global one.
        contents: whether queries and memories are attributes; None asks the environment's
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, which is `true` for yes.

    Raises:
        MissingExtraError: the OpenTelemetry API is not installed.
    """
    global _on
    wanted = os.environ.get(_CONTENTS, "").strip().lower() == "true" if contents is None else contents
    try:
        _on = _Telemetry(tracer_provider, meter_provider, wanted)
    except ImportError as error:
        raise MissingExtraError(feature="telemetry", package="opentelemetry-api", extra="otel") from error


def disable() -> None:
    """Emit nothing from now on; operations that have begun are finished."""
    global _on
    _on = None


def is_enabled() -> bool:
    """Whether spans and the metric are emitted."""
    return _on is not None


class Instrumentor:
    """The form in which the command `opentelemetry-instrument` finds and enables what a program has installed."""

    def instrument(self, **options: Any) -> None:  # noqa: ANN401 - of any instrumentor
        """Do as `enable` with its providers; other options are for other instrumentors."""
        enable(tracer_provider=options.get("tracer_provider"), meter_provider=options.get("meter_provider"))

    def uninstrument(self, **_options: object) -> None:
        """Do as `disable`."""
        disable()


def trace_id() -> str | None:
    """Return the id of the surrounding trace, 32 hexadecimal digits; None without one, and while telemetry is off."""
    if _on is None:
        return None
    context = _on.current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def memory_operation(
    name: MemoryOperationName,
    store: str,
    addresses: Sequence[str] = (),
    *,
    query: str | None = None,
    record: str | None = None,
) -> OperationSpan:
    """Begin an operation on a memory, to be used with `with`.

    Args:
        name: the operation, which names the span.
        store: name of the store.
        addresses: services that the store works on; the first is the span's server.
        query: text that is searched for.
        record: id of the only memory that the operation is about.
    """
    if _on is None:
        return UNOBSERVED
    attributes: dict[str, _Value] = {
        "gen_ai.operation.name": name,
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.memory.store.id": store,
    }
    if addresses:
        attributes.update(_server_of(addresses[0]))
    if record is not None:
        attributes["gen_ai.memory.record.id"] = record
    if query is not None and _on.contents:
        attributes["gen_ai.memory.query.text"] = query
    return _Observed(_on, name, attributes, is_client="server.address" in attributes, is_measured=True)


def call_operation(kind: CallKind, name: str) -> OperationSpan:
    """Begin the call of a workflow, an agent, a tool, a source of knowledge or a chat model of a name."""
    if _on is None:
        return UNOBSERVED
    operation, named = _CALLS[kind]
    attributes: dict[str, _Value] = {"gen_ai.operation.name": operation, named: name}
    asks_a_model = kind == "llm"
    return _Observed(_on, f"{operation} {name}", attributes, is_client=asks_a_model, is_measured=asks_a_model)


def model_attributes(provider: str, address: str | None, tokens: tuple[int, int] | None) -> dict[str, _Value]:
    """Return the attributes of a chat call: provider, server, and tokens read and written where they are known."""
    attributes: dict[str, _Value] = {"gen_ai.provider.name": provider}
    if address is not None:
        attributes |= _server_of(address)
    if tokens is not None:
        attributes |= {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    return attributes


@lru_cache(maxsize=256)
def _server_of(address: str) -> Mapping[str, _Value]:
    """Return host and port of a URL, without its credentials; empty for anything else."""
    try:
        parts = urlsplit(address)
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return {}
    if not parts.hostname:
        return {}
    return {"server.address": parts.hostname, **({"server.port": port} if port is not None else {})}
