"""Keys: names of facts, of which each has one value at a time within a scope."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Final

from devmem.model.items import MemoryItem, Scope

KEY: Final = "key"
"""Metadata key of an item's key."""


def with_key(item: MemoryItem, key: str, scope: Scope) -> MemoryItem:
    """Return an item under the id that its key has within a scope, so that it replaces the value stored there.

    Its scope's user, agent, session and conversation tell keys apart; trace and run do not. The replaced value is the
    item's earlier version.

    Raises:
        ValueError: the key is blank.
    """
    if not key.strip():
        raise ValueError("`key` is empty; leave it out where there is none")
    named = json.dumps([KEY, key, scope.user, scope.agent, scope.session, scope.conversation])
    return replace(item, id=hashlib.sha256(named.encode()).hexdigest()[:32], metadata={**item.metadata, KEY: key})
