"""Declared memory for multi-agent workflows: stores in YAML, attached to agents, found again in the next run.

Authors of store types import from `devmem.stores`; messages are in `devmem.messages`, collections in
`devmem.collections`, every error in `devmem.errors`.

Names are imported when they are first used, so that importing devmem costs little.
"""

from typing import TYPE_CHECKING

from devmem.distribution import NAME as _NAME
from devmem.installation import check_installation as _check_installation
from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.collections import Filter
    from devmem.config import Workflow
    from devmem.errors import CollectionError, ConfigError, DevmemError, EmbeddingError, MissingExtraError
    from devmem.manager import MemoryManager
    from devmem.memory import Memory, forget, open  # noqa: A004 - `devmem.open` is its name
    from devmem.model.acting import acting_as
    from devmem.model.caller import Caller, Turn
    from devmem.model.items import ANY, MemoryContentSnapshot, MemoryItem, Scope
    from devmem.model.results import Hit, MemoryWritePayload, WriteOutcome
    from devmem.model.stages import Stage
    from devmem.recording import record_agent, record_knowledge, record_llm, record_tool, trace
    from devmem.registry import register_memory_store
    from devmem.runtime import RunResult, WorkflowRunner, open_stores
    from devmem.runtime.loading import load_workflow
    from devmem.stores import MemoryBase
else:
    _PACKAGES = (
        "collections",
        "config",
        "errors",
        "manager",
        "memory",
        "messages",
        "recording",
        "registry",
        "runtime",
        "stores",
    )
    __getattr__, __dir__ = _lazy_names(__name__, _PACKAGES)

__all__ = [
    "ANY",
    "Caller",
    "CollectionError",
    "ConfigError",
    "DevmemError",
    "EmbeddingError",
    "Filter",
    "Hit",
    "Memory",
    "MemoryBase",
    "MemoryContentSnapshot",
    "MemoryItem",
    "MemoryManager",
    "MemoryWritePayload",
    "MissingExtraError",
    "RunResult",
    "Scope",
    "Stage",
    "Turn",
    "Workflow",
    "WorkflowRunner",
    "WriteOutcome",
    "acting_as",
    "forget",
    "load_workflow",
    "open",
    "open_stores",
    "record_agent",
    "record_knowledge",
    "record_llm",
    "record_tool",
    "register_memory_store",
    "trace",
]

__distribution__ = _NAME
_check_installation()
