"""A workflow's memory at work: attachments, stages, the manager, the runner."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.reading import WorkflowCheck
    from devmem.model.caller import DEFAULT_SESSION
    from devmem.model.results import CutHit, MemoryRetrievalResult, MemoryUpdateResult, StoreFailure, StoreWrite
    from devmem.workflow.attachments import (
        AttachmentHandle,
        MemoryOperation,
        OperationHook,
        User,
        log_operation,
        visible_to,
    )
    from devmem.workflow.graph import NodeResult, RunResult
    from devmem.workflow.manager import MemoryManager
    from devmem.workflow.rescue import UnsavedWrites, dump_payload, load_payload
    from devmem.workflow.runner import ChatModels, WorkflowRunner, attached_stores, configured_chat_models
    from devmem.workflow.stores import (
        check_workflow,
        make_store,
        open_recalls,
        open_stores,
        session_folder,
        session_names,
    )
    from devmem.workflow.transaction import commit_run, discard_run, revert_run, stores_of_runs
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "DEFAULT_SESSION",
    "AttachmentHandle",
    "ChatModels",
    "CutHit",
    "MemoryManager",
    "MemoryOperation",
    "MemoryRetrievalResult",
    "MemoryUpdateResult",
    "NodeResult",
    "OperationHook",
    "RunResult",
    "StoreFailure",
    "StoreWrite",
    "UnsavedWrites",
    "User",
    "WorkflowCheck",
    "WorkflowRunner",
    "attached_stores",
    "check_workflow",
    "commit_run",
    "configured_chat_models",
    "discard_run",
    "dump_payload",
    "load_payload",
    "log_operation",
    "make_store",
    "open_recalls",
    "open_stores",
    "revert_run",
    "session_folder",
    "session_names",
    "stores_of_runs",
    "visible_to",
]
