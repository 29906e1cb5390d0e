"""A workflow's memory at work: attachments, stages, the manager, the runner."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.reading import WorkflowCheck as WorkflowCheck
    from devmem.model.caller import DEFAULT_SESSION as DEFAULT_SESSION
    from devmem.model.results import CutHit as CutHit
    from devmem.model.results import MemoryRetrievalResult as MemoryRetrievalResult
    from devmem.model.results import MemoryUpdateResult as MemoryUpdateResult
    from devmem.model.results import StoreFailure as StoreFailure
    from devmem.model.results import StoreWrite as StoreWrite
    from devmem.workflow.attachments import AttachmentHandle as AttachmentHandle
    from devmem.workflow.attachments import MemoryOperation as MemoryOperation
    from devmem.workflow.attachments import OperationHook as OperationHook
    from devmem.workflow.attachments import User as User
    from devmem.workflow.attachments import log_operation as log_operation
    from devmem.workflow.attachments import visible_to as visible_to
    from devmem.workflow.forgetting import WorkflowReceipt as WorkflowReceipt
    from devmem.workflow.graph import NodeResult as NodeResult
    from devmem.workflow.graph import RunResult as RunResult
    from devmem.workflow.manager import MemoryManager as MemoryManager
    from devmem.workflow.plan import WorkflowPlan as WorkflowPlan
    from devmem.workflow.rescue import UnsavedWrites as UnsavedWrites
    from devmem.workflow.rescue import dump_write as dump_write
    from devmem.workflow.rescue import load_write as load_write
    from devmem.workflow.runner import ChatModels as ChatModels
    from devmem.workflow.runner import WorkflowRunner as WorkflowRunner
    from devmem.workflow.runner import attached_stores as attached_stores
    from devmem.workflow.runner import configured_chat_models as configured_chat_models
    from devmem.workflow.stores import check_workflow as check_workflow
    from devmem.workflow.stores import make_store as make_store
    from devmem.workflow.stores import open_recalls as open_recalls
    from devmem.workflow.stores import open_stores as open_stores
    from devmem.workflow.stores import session_folder as session_folder
    from devmem.workflow.stores import session_names as session_names
    from devmem.workflow.transaction import commit_run as commit_run
    from devmem.workflow.transaction import discard_run as discard_run
    from devmem.workflow.transaction import revert_run as revert_run
    from devmem.workflow.transaction import stores_of_runs as stores_of_runs
else:
    _ORIGINS = {
        "devmem.workflow.forgetting": "WorkflowReceipt",
        "devmem.workflow.plan": "WorkflowPlan",
        "devmem.config.reading": "WorkflowCheck",
        "devmem.model.caller": "DEFAULT_SESSION",
        "devmem.model.results": "CutHit MemoryRetrievalResult MemoryUpdateResult StoreFailure StoreWrite",
        "devmem.workflow.attachments": "AttachmentHandle MemoryOperation OperationHook User log_operation visible_to",
        "devmem.workflow.graph": "NodeResult RunResult",
        "devmem.workflow.manager": "MemoryManager",
        "devmem.workflow.rescue": "UnsavedWrites dump_write load_write",
        "devmem.workflow.runner": "ChatModels WorkflowRunner attached_stores configured_chat_models",
        "devmem.workflow.stores": "check_workflow make_store open_recalls open_stores session_folder session_names",
        "devmem.workflow.transaction": "commit_run discard_run revert_run stores_of_runs",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
