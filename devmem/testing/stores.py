"""The contract of a store type, as tests."""

from __future__ import annotations

from devmem.testing.store_suite.fixtures import OpenStore
from devmem.testing.store_suite.retrieval import Recalling
from devmem.testing.store_suite.writes import Writing

__all__ = ["OpenStore", "StoreSuite"]


class StoreSuite(Writing, Recalling):
    """The contract of every store that agents write to; inherit from it in a test file and name the type.

    `config` is the store's `config:` block. Set `persists`, `searches` or `embeds` to False for an ability it lacks.
    A store that keeps only some exchanges by design says by `kept` which: it returns the suite's payloads with what the
    store looks for.

        class TestMyMemory(StoreSuite):
            store_class = MyMemory
            config = {"memory_path": "memory.db"}

            def kept(self, payload):
                return replace(payload, metadata={**payload.metadata, "important": True})
    """
