"""For those who write stores, collections and embedding providers: doubles to test with, and the suites of ours.

The doubles need nothing but devmem. The suites need pytest and are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from devmem.testing.chat import FailingChat, ScriptedChat
from devmem.testing.clock import ManualClock
from devmem.testing.embedders import FailingEmbedder, HashEmbedder, HashTokenEmbedder

if TYPE_CHECKING:
    from devmem.testing.collections import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite, VersionSuite
    from devmem.testing.providers import EmbeddingProviderSuite
    from devmem.testing.stores import OpenStore, StoreSuite

__all__ = [
    "ArchiveSuite",
    "CollectionSuite",
    "EmbeddingProviderSuite",
    "FailingChat",
    "FailingEmbedder",
    "HashEmbedder",
    "HashTokenEmbedder",
    "ManualClock",
    "OpenCollection",
    "OpenStore",
    "ScriptedChat",
    "StoreSuite",
    "TombstoneSuite",
    "VersionSuite",
]

_SUITES: Final = {
    "ArchiveSuite": "devmem.testing.collections",
    "CollectionSuite": "devmem.testing.collections",
    "EmbeddingProviderSuite": "devmem.testing.providers",
    "OpenCollection": "devmem.testing.collections",
    "OpenStore": "devmem.testing.stores",
    "StoreSuite": "devmem.testing.stores",
    "TombstoneSuite": "devmem.testing.collections",
    "VersionSuite": "devmem.testing.collections",
}


def __getattr__(name: str) -> object:
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("devmem.testing.assertions")
    return getattr(import_module(_SUITES[name]), name)
