"""Which items are an agent's own."""

from __future__ import annotations

from devmem import MemoryItem
from devmem.stores import AGENT_KEY, MemoryQuery


def is_own(item: MemoryItem, query: MemoryQuery) -> bool:
    """Whether the asking agent wrote an item, or nobody is known to have written it.

    An agent is known by its name. Items of devmem 0.1.0 name the prompt that their agent had, and the node: either is
    enough, so that an edited prompt costs no memory.
    """
    names = {query.caller.agent, query.caller.node, query.agent_role} - {""}
    if not names:
        return True
    writer = item.scope.agent or item.metadata.get(AGENT_KEY)
    if writer is not None:
        return writer in names
    prompt = item.metadata.get("agent_role")
    return not prompt or not names.isdisjoint((prompt, item.provenance.name))
