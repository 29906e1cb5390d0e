"""Calls that somebody else than the caller of the block asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from devmem.model.interactions import Participant
from devmem.recording.context import Entered, Frame, current_trace


@contextmanager
def asked_by(sender: Participant | None) -> Iterator[None]:
    """Make a participant the one who asks in a block, as where an agent hands its answer on to the next one.

    What is called is no call from within the sender's own. None changes nothing, as does a block outside of a trace.
    """
    current = current_trace()
    asking = None if current is None or sender is None else current.within(Frame(callee=sender, record_id=None))
    with Entered(asking):
        yield
