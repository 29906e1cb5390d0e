"""Declared memory for multi-agent workflows: stores in YAML, attached to agents, found again in the next run.

Authors of store types import from `devmem.stores`; messages are in `devmem.messages`, collections in
`devmem.storage`, every error in `devmem.errors`.

Names are imported when they are first used, so that importing devmem costs little.
"""

from typing import TYPE_CHECKING

from devmem.errors import NAME as _NAME
from devmem.installation import check_installation as _check_installation
from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.filter_forms import dump_filter as dump_filter
    from devmem.config.filter_forms import load_filter as load_filter
    from devmem.config.workflow import Workflow as Workflow
    from devmem.errors import ConfigError as ConfigError
    from devmem.errors import DevmemError as DevmemError
    from devmem.memory.forgetting import forget as forget
    from devmem.memory.memory import Memory as Memory
    from devmem.memory.opening import aopen as aopen
    from devmem.memory.opening import open as open  # noqa: A004 - `devmem.open` is its name
    from devmem.memory.runs import MemoryRun as MemoryRun
    from devmem.model.caller import Caller as Caller
    from devmem.model.caller import Stage as Stage
    from devmem.model.caller import Turn as Turn
    from devmem.model.caller import acting_as as acting_as
    from devmem.model.caller import asking_at as asking_at
    from devmem.model.filters import Filter as Filter
    from devmem.model.items import ANY as ANY
    from devmem.model.items import MemoryContentSnapshot as MemoryContentSnapshot
    from devmem.model.items import MemoryItem as MemoryItem
    from devmem.model.items import Scope as Scope
    from devmem.model.results import Hit as Hit
    from devmem.model.results import MemoryRetrievalResult as MemoryRetrievalResult
    from devmem.model.results import MemoryWritePayload as MemoryWritePayload
    from devmem.model.results import SearchReport as SearchReport
    from devmem.model.results import WriteOutcome as WriteOutcome
    from devmem.model.results import WriteStatus as WriteStatus
    from devmem.plugins import register_memory_store as register_memory_store
    from devmem.recording.calls import trace as trace
    from devmem.recording.decorators import record_agent as record_agent
    from devmem.recording.decorators import record_knowledge as record_knowledge
    from devmem.recording.decorators import record_llm as record_llm
    from devmem.recording.decorators import record_tool as record_tool
    from devmem.stores.erasing import ForgetReceipt as ForgetReceipt
    from devmem.stores.memory import MemoryBase as MemoryBase
    from devmem.workflow.manager import MemoryManager as MemoryManager
    from devmem.workflow.plan import plan as plan
    from devmem.workflow.runner import WorkflowRunner as WorkflowRunner
    from devmem.workflow.stores import load_workflow as load_workflow
    from devmem.workflow.stores import open_stores as open_stores
else:
    _PACKAGES = "config errors memory messages models plugins recording storage stores telemetry workflow"
    _ORIGINS = {
        "devmem.config.filter_forms": "dump_filter load_filter",
        "devmem.config.workflow": "Workflow",
        "devmem.errors": "ConfigError DevmemError",
        "devmem.memory.forgetting": "forget",
        "devmem.memory.memory": "Memory",
        "devmem.memory.opening": "aopen open",
        "devmem.memory.runs": "MemoryRun",
        "devmem.model.caller": "Caller Stage Turn acting_as asking_at",
        "devmem.model.filters": "Filter",
        "devmem.model.items": "ANY MemoryContentSnapshot MemoryItem Scope",
        "devmem.model.results": "Hit MemoryRetrievalResult MemoryWritePayload SearchReport WriteOutcome WriteStatus",
        "devmem.plugins": "register_memory_store",
        "devmem.recording.calls": "trace",
        "devmem.recording.decorators": "record_agent record_knowledge record_llm record_tool",
        "devmem.stores.erasing": "ForgetReceipt",
        "devmem.stores.memory": "MemoryBase",
        "devmem.workflow.manager": "MemoryManager",
        "devmem.workflow.plan": "plan",
        "devmem.workflow.runner": "WorkflowRunner",
        "devmem.workflow.stores": "load_workflow open_stores",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS, _PACKAGES)


__distribution__ = _NAME
_check_installation()
