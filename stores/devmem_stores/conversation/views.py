"""Views: the records that one agent sees of the global memory."""

from __future__ import annotations

from dataclasses import dataclass

from devmem.recording import Interaction, Participant, ParticipantType


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A choice among all records."""

    agent: str | None = None
    """Name of the agent; None sees the records of all."""
    counterparts: frozenset[ParticipantType] = frozenset({ParticipantType.USER, ParticipantType.AGENT})
    """Types of the other side."""
    without_trace: str | None = None
    """A trace that is left out."""

    def shows(self, record: Interaction) -> bool:
        """Whether a record is part of the view."""
        if record.trace == self.without_trace:
            return False
        sides = (record.source, record.target)
        return any(self._is_own(one) and other.type in self.counterparts for one, other in (sides, sides[::-1]))

    def _is_own(self, one: Participant) -> bool:
        if self.agent is None:
            return one.type in (ParticipantType.AGENT, ParticipantType.USER)
        return one.type is ParticipantType.AGENT and one.name == self.agent
