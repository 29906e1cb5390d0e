"""One recorded call: its input before, its output or its error after, and itself as the caller of what it calls."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import TracebackType
from typing import Final, Self

from devmem.model.interactions import Interaction, InteractionKind, Participant
from devmem.recording.context import Entered, Frame, TraceContext, current_trace
from devmem.recording.ids import unique_id

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
    ) -> None:
        """Describe a call.

        Args:
            callee: who is called.
            content: the question.
            params: arguments of the call.
            call_id: identifies the call within its trace where a wrapper and a callback both see it: it is recorded
                once, as the first of them sees it.
        """
        self._callee, self._content, self._params, self._call_id = callee, content, params or {}, call_id
        self._output: object = None
        self._outer: TraceContext | None = None
        self._inner: TraceContext | None = None
        self._pair_id = ""
        self._block = Entered(None)

    def output(self, value: object) -> None:
        """Set the answer, of any type."""
        self._output = value

    def begin(self) -> None:
        """Record the input; a call that has begun is not begun again."""
        current = current_trace()
        if self._inner is not None or current is None or current.recorder is None:
            return
        record_id = None
        if current.recorder.records(self._callee.type):
            pair_id = self._pair_id = unique_id() if self._call_id is None else _named_id(current.trace, self._call_id)
            record_id = f"{pair_id}-input"
            if self._call_id is not None and any(frame.record_id == record_id for frame in current.frames):
                return
            self._outer = current
            self._append(record_id, InteractionKind.INPUT, self._content, current.caller, self._callee)
        self._inner = current.within(Frame(callee=self._callee, record_id=record_id))

    def inside(self) -> Entered:
        """Make the call the caller of what is called within a block."""
        return Entered(self._inner)

    def finish(self, error: BaseException | None = None) -> None:
        """Record the output, or the exception that the call ended with; only the first time."""
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


def _named_id(trace: str, call_id: str) -> str:
    named = f"{trace}\0{call_id}".encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=16).hexdigest()
