"""Declared memory for multi-agent workflows: stores in YAML, attached to agents, found again in the next run.

Authors of store types import from `devmem.stores`; messages are in `devmem.messages`, collections in
`devmem.storage`, every error in `devmem.errors`.

Names are imported when they are first used, so that importing devmem costs little.
"""

from typing import TYPE_CHECKING

from devmem.errors import NAME as _NAME
from devmem.installation import check_installation as _check_installation
from devmem.lazy_names import lazy_names as _lazy_names
from devmem.moved_modules import MOVED as _MOVED
from devmem.moved_modules import install as _find_moved_modules

if TYPE_CHECKING:
    from devmem.config.filter_forms import dump_filter, load_filter
    from devmem.config.workflow import Workflow
    from devmem.errors import CollectionError, ConfigError, DevmemError, EmbeddingError, MissingExtraError
    from devmem.memory.forgetting import forget
    from devmem.memory.memory import Memory
    from devmem.memory.opening import open  # noqa: A004 - `devmem.open` is its name
    from devmem.memory.reading import MemorySnapshot
    from devmem.memory.records import History, Hits, MemoryRecord, RecordDifference, Records, RecordVersion, SearchHit
    from devmem.memory.runs import MemoryRun
    from devmem.model.caller import Caller, Stage, Turn, acting_as
    from devmem.model.filters import Filter
    from devmem.model.items import ANY, MemoryContentSnapshot, MemoryItem, Scope
    from devmem.model.results import (
        Hit,
        MemoryRetrievalResult,
        MemoryUpdateResult,
        MemoryWritePayload,
        SearchReport,
        StoreFailure,
        WriteOutcome,
        WriteStatus,
    )
    from devmem.model.versions import Change, Operation, RunInfo, RunState
    from devmem.plugins import register_memory_store
    from devmem.recording.calls import trace
    from devmem.recording.decorators import record_agent, record_knowledge, record_llm, record_tool
    from devmem.stores.erasing import ForgetReceipt
    from devmem.stores.memory import MemoryBase
    from devmem.workflow.erasing import WorkflowReceipt
    from devmem.workflow.graph import RunResult
    from devmem.workflow.manager import MemoryManager
    from devmem.workflow.plan import WorkflowPlan, plan
    from devmem.workflow.runner import WorkflowRunner
    from devmem.workflow.stores import load_workflow, open_stores
else:
    _PACKAGES = (
        "config",
        "errors",
        "memory",
        "messages",
        "models",
        "plugins",
        "recording",
        "storage",
        "stores",
        "telemetry",
        "workflow",
    )
    __getattr__, __dir__ = _lazy_names(__name__, (*_PACKAGES, *(name.removeprefix("devmem.") for name in _MOVED)))

__all__ = [
    "ANY",
    "Caller",
    "Change",
    "CollectionError",
    "ConfigError",
    "DevmemError",
    "EmbeddingError",
    "Filter",
    "ForgetReceipt",
    "History",
    "Hit",
    "Hits",
    "Memory",
    "MemoryBase",
    "MemoryContentSnapshot",
    "MemoryItem",
    "MemoryManager",
    "MemoryRecord",
    "MemoryRetrievalResult",
    "MemoryRun",
    "MemorySnapshot",
    "MemoryUpdateResult",
    "MemoryWritePayload",
    "MissingExtraError",
    "Operation",
    "RecordDifference",
    "RecordVersion",
    "Records",
    "RunInfo",
    "RunResult",
    "RunState",
    "Scope",
    "SearchHit",
    "SearchReport",
    "Stage",
    "StoreFailure",
    "Turn",
    "Workflow",
    "WorkflowPlan",
    "WorkflowReceipt",
    "WorkflowRunner",
    "WriteOutcome",
    "WriteStatus",
    "acting_as",
    "dump_filter",
    "forget",
    "load_filter",
    "load_workflow",
    "open",
    "open_stores",
    "plan",
    "record_agent",
    "record_knowledge",
    "record_llm",
    "record_tool",
    "register_memory_store",
    "trace",
]

__distribution__ = _NAME
_check_installation()
_find_moved_modules()
