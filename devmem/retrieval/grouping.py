"""Hits by conversation: which conversations a question is about, and what of each was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devmem.outcomes import Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class HitGroup:
    """What was found of one conversation."""

    conversation: str | None
    session: str | None
    hits: tuple[Hit, ...]
    """Best first; there is at least one."""

    @property
    def score(self) -> float:
        """That of the best hit."""
        return self.hits[0].score


def by_conversation(hits: Sequence[Hit]) -> list[HitGroup]:
    """Group hits, best first, by the conversation and session of their items; the group of the best hit comes first.

    An item that is of none is a group of its own.
    """
    groups: dict[object, list[Hit]] = {}
    for at, hit in enumerate(hits):
        scope = hit.item.scope
        alone = scope.conversation is None and scope.session is None
        groups.setdefault(at if alone else (scope.conversation, scope.session), []).append(hit)
    return [
        HitGroup(conversation=found[0].item.scope.conversation, session=found[0].item.scope.session, hits=tuple(found))
        for found in groups.values()
    ]
