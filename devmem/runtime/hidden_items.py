"""The number of items that a run without a user does not see."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from devmem.collections import Filter
from devmem.config import NodeConfig
from devmem.errors import DevmemError
from devmem.manager import User
from devmem.stores import CollectionMemory, MemoryBase

_LOG: Final = logging.getLogger(__name__)
_UNBOUND: Final = Filter(unbound=("user",))


def count_hidden(nodes: Iterable[NodeConfig], stores: Mapping[str, MemoryBase], user: User) -> dict[str, int]:
    """Return the number of items bound to users in each store that the nodes read; empty when the run sees them.

    Stores without a collection, such as those behind a service, are left out: counting would cost a request.
    """
    if user is not None:
        return {}
    read = dict.fromkeys(
        entry.name for node in nodes if node.config is not None for entry in node.config.memories if entry.read
    )
    counts = {name: _bound_items(stores.get(name)) for name in read}
    return {name: count for name, count in counts.items() if count}


def _bound_items(store: MemoryBase | None) -> int:
    if not isinstance(store, CollectionMemory):
        return 0
    try:
        return store.count_memories() - store.count_memories(_UNBOUND)
    except DevmemError as error:
        _LOG.warning("The items of memory store %r that belong to users cannot be counted: %s", store.name, error)
        return 0
