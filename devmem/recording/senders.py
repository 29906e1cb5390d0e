"""Who asks and who answers in the trace in progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from devmem.model.caller import Caller
from devmem.model.interactions import Participant, ParticipantType
from devmem.recording.context import Entered, Frame, current_trace

INPUT_SUFFIX: Final = "-input"
"""End of the id of a call's input record, after the id of the call."""


@contextmanager
def asked_by(sender: Participant | None) -> Iterator[None]:
    """Make a participant the one who asks in a block, as where an agent hands its answer on to the next one.

    What is called is no call from within the sender's own. None changes nothing, as does a block outside of a trace.
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
