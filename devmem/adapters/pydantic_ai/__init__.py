"""Memories for Pydantic AI: a toolset and a history processor (extra `pydantic-ai`), and a store of its harness.

The store needs the extra `pydantic-ai-harness`, the rest does not.
"""

from typing import TYPE_CHECKING

from devmem.adapters.hosts import require as _require

_require("pydantic_ai.toolsets", package="pydantic-ai-slim", extra="pydantic-ai")

from devmem.adapters.pydantic_ai.toolset import memory_toolset, recalling, remember

if TYPE_CHECKING:
    from devmem.adapters.pydantic_ai.store import DevmemHarnessStore

__all__ = ["DevmemHarnessStore", "memory_toolset", "recalling", "remember"]


def __getattr__(name: str) -> object:
    if name != "DevmemHarnessStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _require("pydantic_ai_harness.memory", package="pydantic-ai-harness", extra="pydantic-ai-harness")
    from devmem.adapters.pydantic_ai.store import DevmemHarnessStore

    return DevmemHarnessStore
