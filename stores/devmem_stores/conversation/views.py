"""Views: the records that one agent sees of the global memory, as filters on their participants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from devmem import Filter, Scope
from devmem.collections import Condition, differs_from, one_of
from devmem.recording import InteractionKind, ParticipantType
from devmem_stores.conversation.items import RECORD_KEY

_SPEAKING: Final = (ParticipantType.AGENT.value, ParticipantType.USER.value)
_SIDES: Final = (("source", "target"), ("target", "source"))
_SUMMARY: Final = InteractionKind.SUMMARY.value


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A choice among all records."""

    agent: str | None = None
    """Name of the agent; None sees the records of all."""
    counterparts: frozenset[ParticipantType] = frozenset({ParticipantType.USER, ParticipantType.AGENT})
    """Types of the other side."""
    without_trace: str | None = None
    """A trace that is left out."""

    def filter(self, where: Filter) -> Filter:
        """Return the filter that admits what is part of the view and matches another filter.

        Summaries are no part of it, since they stand for other records. Items that are no records, as of an import, are
        part of the view of all agents alone.
        """
        parts = [Filter(metadata=sides, any_of=where.any_of) for sides in self._sides()]
        if self.agent is None:
            parts.append(Filter(metadata={RECORD_KEY: differs_from(True)}, any_of=where.any_of))
        traces = {} if self.without_trace is None else {"trace": differs_from(self.without_trace)}
        return replace(
            where,
            scope=replace(where.scope, agent=None),
            scope_in={**traces, **where.scope_in},
            any_of=tuple(parts),
        )

    def _sides(self) -> Iterator[Mapping[str, str | Condition]]:
        """Return the metadata of the records, by the side on which the agent is."""
        types = one_of(*sorted(one.value for one in self.counterparts))
        for mine, other in _SIDES:
            me = {f"{mine}_type": one_of(*_SPEAKING)} if self.agent is None else _named(mine, self.agent)
            yield {**me, f"{other}_type": types, "type": differs_from(_SUMMARY)}


def by_participant(where: Filter) -> Filter:
    """Return a filter by agent as one by participant.

    No record is an agent's own: the records of an agent are those in which it is the source or the target.
    """
    agent = where.scope.agent
    if agent is None:
        return where
    free = replace(where, scope=replace(where.scope, agent=None))
    if where.or_unbound:
        # Every record is bound to no agent.
        return free
    sides = tuple(Filter(metadata=_named(side, agent), any_of=where.any_of) for side, _ in _SIDES)
    bound = Filter(scope=Scope(agent=agent), any_of=where.any_of)
    return replace(free, any_of=(*sides, bound))


def summaries_for(agent: str | None, where: Filter) -> Filter:
    """Return the filter of the summaries that were made of an agent's view; None are those of all records."""
    made_for = {"type": _SUMMARY, "target": agent or ""}
    return replace(where, scope=replace(where.scope, agent=None), metadata={**where.metadata, **made_for})


def _named(side: str, agent: str) -> Mapping[str, str]:
    return {side: agent, f"{side}_type": ParticipantType.AGENT.value}
