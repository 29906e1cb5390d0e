"""Running workflows: stores opened, nodes ordered, stages gone through."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.runtime.checking import WorkflowCheck, check_workflow
    from devmem.runtime.results import NodeResult, RunResult
    from devmem.runtime.runner import ChatModels, WorkflowRunner, attached_stores, configured_chat_models
    from devmem.runtime.stores import DEFAULT_SESSION, make_store, open_stores, session_folder, session_names
    from devmem.runtime.transaction import commit_run, discard_run, revert_run, stores_of_runs
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "DEFAULT_SESSION",
    "ChatModels",
    "NodeResult",
    "RunResult",
    "WorkflowCheck",
    "WorkflowRunner",
    "attached_stores",
    "check_workflow",
    "commit_run",
    "configured_chat_models",
    "discard_run",
    "make_store",
    "open_stores",
    "revert_run",
    "session_folder",
    "session_names",
    "stores_of_runs",
]
