"""Memories for Pydantic AI: a store of its harness, a toolset, a history processor; needs the extra `pydantic-ai`."""

from devmem.adapters.hosts import require as _require

_require("pydantic_ai.toolsets", package="pydantic-ai-slim", extra="pydantic-ai")
_require("pydantic_ai_harness.memory", package="pydantic-ai-harness", extra="pydantic-ai")

from devmem.adapters.pydantic_ai.store import DevmemMemoryStore  # noqa: E402
from devmem.adapters.pydantic_ai.toolset import memory_toolset, recalling, remember  # noqa: E402 - first the errors that name the extra

__all__ = ["DevmemMemoryStore", "memory_toolset", "recalling", "remember"]
