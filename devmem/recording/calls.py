"""One recorded call: its input before, its output or its error after, and itself as the caller of what it calls."""

from __future__ import annotations

import contextvars
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeVar

from devmem import telemetry
from devmem.forks import follow_forks
from devmem.model.border import check_characters
from devmem.model.caller import Caller
from devmem.model.interactions import Interaction, InteractionKind, Participant, ParticipantType

if TYPE_CHECKING:
    from devmem.recording.recorder import InteractionRecorder


class _UniqueIds:
    """A random prefix of this process, and a count."""

    def __init__(self) -> None:
        self.restart_in_child()
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Begin again with another prefix, as a forked child has to."""
        self._prefix, self._count = os.urandom(12).hex(), itertools.count()

    def next(self) -> str:
        return f"{self._prefix}{next(self._count):08x}"


_IDS: Final = _UniqueIds()


def unique_id() -> str:
    """Return an id of 32 or more hexadecimal digits; those of one process ascend."""
    return _IDS.next()


P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A call in progress."""

    callee: Participant
    record_id: str | None
    """Id of the call's input record; None for the one who began the trace, and for a call that is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """The trace in progress, as one task or thread sees it."""

    conversation: str
    trace: str
    recorder: InteractionRecorder | None
    user: str | None
    """Id of the user whom the trace belongs to; None leaves it unscoped."""
    frames: tuple[Frame, ...]
    """Callers, the outermost first; there is at least the one who began the trace."""
    types: frozenset[ParticipantType] | None = None
    """Kinds of callees whose calls are recorded, in the place of the recorder's `types`; None means these."""
    not_before: float = 0.0
    """Event time of the latest record that is known to precede, in seconds since the epoch."""

    @property
    def caller(self) -> Participant:
        """Who makes the next call."""
        return self.frames[-1].callee

    @property
    def parent_id(self) -> str | None:
        """Input record of the innermost recorded call."""
        for frame in reversed(self.frames):
            if frame.record_id is not None:
                return frame.record_id
        return None

    def within(self, frame: Frame) -> TraceContext:
        """Return the context inside of a call."""
        return replace(self, frames=(*self.frames, frame))

    def records(self, callee: ParticipantType) -> bool:
        """Whether calls of this kind of callee are recorded."""
        return self.recorder is not None and self.recorder.records(callee, self.types)


INPUT_SUFFIX: Final = "-input"
"""End of the id of a call's input record, after the id of the call."""
_CURRENT: Final[contextvars.ContextVar[TraceContext | None]] = contextvars.ContextVar("devmem_trace", default=None)


def current_trace() -> TraceContext | None:
    """Return the trace in progress; None outside of one."""
    return _CURRENT.get()


class Entered:
    """Makes a context the current one within a block; a class, since it is on the path of every recorded call."""

    __slots__ = ("_attached", "_context", "_operation", "_token")

    def __init__(self, context: TraceContext | None, operation: telemetry.OperationSpan = telemetry.UNOBSERVED) -> None:
        """Take the context, with None of which nothing is changed, and the operation that spans in the block are of."""
        self._context, self._operation = context, operation

    def __enter__(self) -> None:
        self._attached = self._operation.attach()
        if self._context is not None:
            self._token = _CURRENT.set(self._context)

    def __exit__(self, *_: object) -> None:
        if self._context is not None:
            _CURRENT.reset(self._token)
        self._operation.detach(self._attached)


@contextmanager
def trace(
    recorder: InteractionRecorder | None = None,
    *,
    conversation: str | None = None,
    trace: str | None = None,
    user: str | None = None,
) -> Iterator[TraceContext]:
    """Begin a trace: calls within the block are recorded as part of it.

    Args:
        recorder: records the calls; None takes that of the surrounding trace.
        conversation: id of the conversation; None takes the surrounding trace's, or a new one.
        trace: id of the trace; None takes that of the surrounding OpenTelemetry trace, or makes a new one.
        user: id of the user who begins the trace; only searches for this user find the records. None leaves them
            unscoped.

    Yields:
        the context, with the ids.

    Raises:
        TypeError: an id is not a text, so that no store would take the records.
        ValueError: an id holds a character that no name may.
    """
    for key, value in {"conversation": conversation, "trace": trace, "user": user}.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"`{key}` is an id as text, not {value!r}; write {key}=str(...)")
        if value is not None:
            check_characters(key, value)
    outer = _CURRENT.get()
    context = TraceContext(
        conversation=conversation or (outer.conversation if outer else unique_id()),
        trace=trace or telemetry.trace_id() or unique_id(),
        recorder=recorder or (outer.recorder if outer else None),
        user=user,
        frames=(Frame(callee=Participant(user or "user", ParticipantType.USER), record_id=None),),
    )
    with Entered(context):
        yield context


def in_trace(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function bound to the trace in progress, for a thread or an executor; tasks carry it by themselves."""
    context = contextvars.copy_context()

    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        # A context can be entered once at a time, and an executor may call the function several times at once.
        return context.copy().run(function, *args, **kwargs)

    return bound


def carry() -> dict[str, object]:
    """Return the trace in progress as JSON, for `continue_trace` in another process; empty outside of a trace."""
    context = _CURRENT.get()
    if context is None:
        return {}
    now = context.recorder.stamp()[0] if context.recorder else context.not_before
    return {
        "conversation": context.conversation,
        "trace": context.trace,
        "user": context.user,
        "not_before": now,
        "frames": [[frame.callee.name, frame.callee.type.value, frame.record_id] for frame in context.frames],
    }


@contextmanager
def continue_trace(
    carried: Mapping[str, object], recorder: InteractionRecorder | None = None
) -> Iterator[TraceContext | None]:
    """Go on with a trace of another process, within the block; nothing is changed when `carried` is empty.

    Raises:
        ValueError: `carried` was not made by `carry`.
    """
    if not carried:
        yield None
        return
    try:
        frames = tuple(
            Frame(callee=Participant(name, ParticipantType(kind)), record_id=record_id)
            for name, kind, record_id in carried["frames"]  # type: ignore[attr-defined]
        )
        context = TraceContext(
            conversation=str(carried["conversation"]),
            trace=str(carried["trace"]),
            recorder=recorder,
            user=carried["user"],  # type: ignore[arg-type]
            frames=frames,
            not_before=float(carried["not_before"]),  # type: ignore[arg-type]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"this is not a trace that `carry()` returned: {carried!r}") from error
    with Entered(context):
        yield context


_OBSERVED: Final[Mapping[ParticipantType, telemetry.CallKind]] = {
    ParticipantType.AGENT: "agent",
    ParticipantType.TOOL: "tool",
    ParticipantType.KNOWLEDGE: "knowledge",
    ParticipantType.LLM: "llm",
}
_NOTHING: Final = frozenset[ParticipantType]()
"""Kinds of callees that are recorded within an agent that is not traced."""
ARGUMENTS: Final = object()
"""Content of a call whose question is its arguments."""


class Call:
    """A call in progress, as a context manager.

    Outside of a trace, and for callees that the recorder does not record, nothing is recorded; calls from within it are
    recorded all the same.
    """

    def __init__(
        self,
        callee: Participant,
        content: object = ARGUMENTS,
        *,
        params: Mapping[str, object] | None = None,
        call_id: str | None = None,
        auto_trace: bool = True,
        collection_types: Iterable[ParticipantType | str] | None = None,
    ) -> None:
        """Describe a call.

        Args:
            callee: who is called.
            content: the question.
            params: arguments of the call.
            call_id: identifies the call within its trace where a wrapper and a callback both see it: it is recorded
                once, as the first of them sees it.
            auto_trace: whether to record the call, and those from within it.
            collection_types: kinds of callees whose calls from within this one are recorded: `agent`, `tool`,
                `knowledge`, `llm`; None takes those of the call around it, or the recorder's.

        Raises:
            ValueError: there is no such kind of callee.
        """
        self._callee, self._content, self._params, self._call_id = callee, content, params or {}, call_id
        self._auto_trace = auto_trace
        self._types = None if collection_types is None else frozenset(map(ParticipantType, collection_types))
        self._output: object = None
        self._outer: TraceContext | None = None
        self._inner: TraceContext | None = None
        self._pair_id = ""
        self._block = Entered(None)
        self._operation = telemetry.UNOBSERVED

    def output(self, value: object) -> None:
        """Set the answer, of any type."""
        self._output = value

    def begin(self) -> None:
        """Record the input; a call that has begun is not begun again."""
        current = current_trace()
        if self._inner is not None:
            return
        if current is None or current.recorder is None:
            self._observe()
            return
        if not self._auto_trace:
            current = replace(current, types=_NOTHING)
        record_id = None
        if current.records(self._callee.type):
            named = f"{current.trace}\0{self._call_id}".encode()
            pair_id = unique_id() if self._call_id is None else blake2b(named, digest_size=16).hexdigest()
            self._pair_id = pair_id
            record_id = f"{pair_id}{INPUT_SUFFIX}"
            if self._call_id is not None and any(frame.record_id == record_id for frame in current.frames):
                return
            self._outer = current
            self._append(record_id, InteractionKind.INPUT, self._content, current.caller, self._callee)
        self._inner = current.within(Frame(callee=self._callee, record_id=record_id))
        if self._types is not None and current.types != _NOTHING:
            self._inner = replace(self._inner, types=self._types)
        self._observe()

    def _observe(self) -> None:
        if self._operation is telemetry.UNOBSERVED and self._callee.type in _OBSERVED:
            self._operation = telemetry.call_operation(_OBSERVED[self._callee.type], self._callee.name)

    def annotate(self, attributes: Mapping[str, str | int]) -> None:
        """Add attributes to the call's OpenTelemetry span."""
        self._operation.annotate(attributes)

    def inside(self) -> Entered:
        """Make the call the caller of calls within a block."""
        return Entered(self._inner, self._operation)

    def finish(self, error: BaseException | None = None) -> None:
        """Record the output, or the exception that the call ended with; only the first time."""
        self._operation.end(error)
        if self._outer is None:
            return
        kind, content = (InteractionKind.OUTPUT, self._output) if error is None else (InteractionKind.ERROR, error)
        self._append(f"{self._pair_id}-output", kind, content, self._callee, self._outer.caller)
        self._outer = None

    def __enter__(self) -> Self:
        self.begin()
        self._block = self.inside()
        self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._block.__exit__()
        self.finish(error)

    def _append(
        self, record_id: str, kind: InteractionKind, content: object, source: Participant, target: Participant
    ) -> None:
        context = self._outer
        if context is None or context.recorder is None:
            return
        recorder, renderer = context.recorder, context.recorder.renderer
        params = renderer.arguments(self._params) if self._params and kind is InteractionKind.INPUT else {}
        text = renderer.as_text(dict(params)) if content is ARGUMENTS else renderer.content(content)
        event_time, sequence = recorder.stamp(context.not_before)
        recorder.append(
            Interaction(
                id=record_id,
                conversation=context.conversation,
                trace=context.trace,
                source=source,
                target=target,
                kind=kind,
                content=text,
                event_time=event_time,
                sequence=sequence,
                pair_id=self._pair_id,
                parent_id=context.parent_id,
                params=params,
                language=recorder.options.language,
                user=context.user,
            )
        )


@contextmanager
def asked_by(sender: Participant | None) -> Iterator[None]:
    """Make a participant the one who asks in a block, as where an agent hands its answer on to the next one.

    Calls in the block do not count as made within the sender's call. None changes nothing, as does a block outside
    of a trace.
    """
    current = current_trace()
    asking = None if current is None or sender is None else current.within(Frame(callee=sender, record_id=None))
    with Entered(asking):
        yield


def caller_in_trace() -> Caller:
    """Return the agent whose recorded call is in progress, with the conversation, the trace and the call's id.

    The parts that nothing in progress names are open.
    """
    current = current_trace()
    if current is None:
        return Caller()
    agents = (frame for frame in reversed(current.frames) if frame.callee.type is ParticipantType.AGENT)
    frame = next((one for one in agents if one.record_id is not None), None)
    named = Caller(conversation=current.conversation, trace=current.trace)
    if frame is None or frame.record_id is None:
        return named
    return replace(named, agent=frame.callee.name, call=frame.record_id.removesuffix(INPUT_SUFFIX))
