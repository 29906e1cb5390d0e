"""Hits grouped by conversation."""

from __future__ import annotations

from collections.abc import Sequence

from devmem.model.results import Hit, HitGroup


def by_conversation(hits: Sequence[Hit]) -> list[HitGroup]:
    """Group hits, best first, by the conversation of their items; the group of the best hit comes first.

    Items of the same conversation, session, agent and user are of one conversation; an item of none forms its own.
    """
    groups: dict[object, list[Hit]] = {}
    for at, hit in enumerate(hits):
        scope = hit.item.scope
        alone = scope.conversation is None and scope.session is None
        groups.setdefault(at if alone else (scope.conversation, scope.session, scope.agent, scope.user), []).append(hit)
    return [HitGroup.of(found, found[0].score) for found in groups.values()]
