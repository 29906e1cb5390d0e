"""The memory of an agent node."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.manager.attachment_handle import AttachmentHandle
    from devmem.manager.manager import MemoryManager
    from devmem.manager.operations import MemoryOperation, OperationHook, log_operation
    from devmem.manager.rescue import UnsavedWrites, dump_payload, load_payload
    from devmem.manager.visibility import User, visible_to
    from devmem.model.results import CutHit, MemoryRetrievalResult, MemoryUpdateResult, StoreFailure, StoreWrite
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "AttachmentHandle",
    "CutHit",
    "MemoryManager",
    "MemoryOperation",
    "MemoryRetrievalResult",
    "MemoryUpdateResult",
    "OperationHook",
    "StoreFailure",
    "StoreWrite",
    "UnsavedWrites",
    "User",
    "dump_payload",
    "load_payload",
    "log_operation",
    "visible_to",
]
