"""Declared memory for multi-agent workflows: stores in YAML, attached to agents, found again in the next run.

Authors of store types import from `devmem.stores`; messages are in `devmem.messages`, collections in
`devmem.collections`, every error in `devmem.errors`.
"""

from devmem.collections import Filter
from devmem.config import Workflow
from devmem.errors import CollectionError, ConfigError, DevmemError, EmbeddingError, MissingExtraError
from devmem.manager import MemoryManager
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope
from devmem.model.results import Hit, MemoryWritePayload, WriteOutcome
from devmem.model.stages import Stage
from devmem.registry import register_memory_store
from devmem.runtime import RunResult, WorkflowRunner, open_stores
from devmem.runtime.loading import load_workflow
from devmem.stores import MemoryBase

__all__ = [
    "CollectionError",
    "ConfigError",
    "DevmemError",
    "EmbeddingError",
    "Filter",
    "Hit",
    "MemoryBase",
    "MemoryContentSnapshot",
    "MemoryItem",
    "MemoryManager",
    "MemoryWritePayload",
    "MissingExtraError",
    "RunResult",
    "Scope",
    "Stage",
    "Workflow",
    "WorkflowRunner",
    "WriteOutcome",
    "load_workflow",
    "open_stores",
    "register_memory_store",
]
