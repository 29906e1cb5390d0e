"""For those who write store types and embedding providers: doubles to test with, and the suites that ours pass.

The doubles need nothing but devmem. The suites need pytest and are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from devmem.testing.chat import FailingChat, ScriptedChat
from devmem.testing.clock import ManualClock
from devmem.testing.embedders import FailingEmbedder, HashEmbedder, HashTokenEmbedder

if TYPE_CHECKING:
    from devmem.testing.providers import EmbeddingProviderSuite
    from devmem.testing.stores import OpenStore, StoreSuite

__all__ = [
    "EmbeddingProviderSuite",
    "FailingChat",
    "FailingEmbedder",
    "HashEmbedder",
    "HashTokenEmbedder",
    "ManualClock",
    "OpenStore",
    "ScriptedChat",
    "StoreSuite",
]

_SUITES: Final = {
    "EmbeddingProviderSuite": "devmem.testing.providers",
    "OpenStore": "devmem.testing.stores",
    "StoreSuite": "devmem.testing.stores",
}


def __getattr__(name: str) -> object:
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("devmem.testing.assertions")
    return getattr(import_module(_SUITES[name]), name)
