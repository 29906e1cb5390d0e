"""Declared memory for multi-agent workflows: stores in YAML, attached to agents, found again in the next run.

Authors of store types import from `devmem.stores`; messages are in `devmem.messages`, collections in
`devmem.collections`, every error in `devmem.errors`.

Names are imported when they are first used, so that importing devmem costs little.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from devmem.distribution import NAME as _NAME
from devmem.installation import check_installation as _check_installation

if TYPE_CHECKING:
    from devmem.collections import Filter
    from devmem.config import Workflow
    from devmem.errors import CollectionError, ConfigError, DevmemError, EmbeddingError, MissingExtraError
    from devmem.manager import MemoryManager
    from devmem.memory import Memory, open  # noqa: A004 - `devmem.open` is its name
    from devmem.model.items import ANY, MemoryContentSnapshot, MemoryItem, Scope
    from devmem.model.results import Hit, MemoryWritePayload, WriteOutcome
    from devmem.model.stages import Stage
    from devmem.registry import register_memory_store
    from devmem.runtime import RunResult, WorkflowRunner, open_stores
    from devmem.runtime.loading import load_workflow
    from devmem.stores import MemoryBase

__all__ = [
    "ANY",
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
    "Workflow",
    "WorkflowRunner",
    "WriteOutcome",
    "load_workflow",
    "open",
    "open_stores",
    "register_memory_store",
]

__distribution__ = _NAME
_check_installation()

if not TYPE_CHECKING:
    _MODULES = {
        "devmem.errors": ("CollectionError", "ConfigError", "DevmemError", "EmbeddingError", "MissingExtraError"),
        "devmem.manager.manager": ("MemoryManager",),
        "devmem.memory": ("Memory", "open"),
        "devmem.model.items": ("ANY", "MemoryContentSnapshot", "MemoryItem", "Scope"),
        "devmem.model.results": ("Hit", "MemoryWritePayload", "WriteOutcome"),
        "devmem.model.stages": ("Stage",),
        "devmem.config.workflow": ("Workflow",),
        "devmem.registry": ("register_memory_store",),
        "devmem.runtime": ("RunResult", "WorkflowRunner", "open_stores"),
        "devmem.runtime.loading": ("load_workflow",),
        "devmem.search.query": ("Filter",),
        "devmem.stores.memory": ("MemoryBase",),
    }
    _HOME = {name: module for module, names in _MODULES.items() for name in names}
    _PACKAGES = ("collections", "config", "errors", "manager", "memory", "messages", "registry", "runtime", "stores")

    def __getattr__(name: str) -> object:
        if name in _HOME:
            value = getattr(_import_module(_HOME[name]), name)
        elif name in _PACKAGES:
            value = _import_module(f"devmem.{name}")
        else:
            raise AttributeError(f"module 'devmem' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_PACKAGES})
