"""Running workflows: stores opened, nodes ordered, stages gone through."""

from devmem.runtime.checking import WorkflowCheck, check_workflow
from devmem.runtime.results import NodeResult, RunResult
from devmem.runtime.runner import ChatModels, WorkflowRunner, attached_stores, configured_chat_models
from devmem.runtime.stores import DEFAULT_SESSION, make_store, open_stores, session_folder

__all__ = [
    "DEFAULT_SESSION",
    "ChatModels",
    "NodeResult",
    "RunResult",
    "WorkflowCheck",
    "WorkflowRunner",
    "attached_stores",
    "check_workflow",
    "configured_chat_models",
    "make_store",
    "open_stores",
    "session_folder",
]
