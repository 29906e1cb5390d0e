"""agentUniverse's memory components over stores of devmem; agentUniverse must be on the import path.

Components name these classes in their YAML: `metadata: {type: MEMORY_STORAGE, module:
devmem.adapters.agentuniverse, class: DevmemMemoryStorage}`.
"""

from importlib.util import find_spec

from devmem.errors import HostNotFoundError

if find_spec("agentuniverse") is None:
    raise HostNotFoundError(
        "agentUniverse", "install it into this environment, or add the folder of its code to PYTHONPATH"
    )

from devmem.adapters.agentuniverse.conversation import DevmemConversationStorage
from devmem.adapters.agentuniverse.memory import DevmemAgentMemory, DevmemChatMemory
from devmem.adapters.agentuniverse.storage import DevmemMemoryStorage

__all__ = ["DevmemAgentMemory", "DevmemChatMemory", "DevmemConversationStorage", "DevmemMemoryStorage"]
