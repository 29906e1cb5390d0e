"""MetaGPT's memories over stores of devmem; MetaGPT must be on the import path.

role.rc.memory = DevmemMemory(place="team.db", role=role.name)
"""

from importlib.util import find_spec

from devmem.errors import HostNotFoundError

if find_spec("metagpt") is None:
    raise HostNotFoundError("MetaGPT", "install it into this environment, or add the folder of its code to PYTHONPATH")

from devmem.adapters.metagpt.brain import DevmemBrainMemory
from devmem.adapters.metagpt.memory import DevmemLongTermMemory, DevmemMemory, DevmemRoleZeroMemory
from devmem.adapters.metagpt.messages import to_devmem, to_metagpt

__all__ = [
    "DevmemBrainMemory",
    "DevmemLongTermMemory",
    "DevmemMemory",
    "DevmemRoleZeroMemory",
    "to_devmem",
    "to_metagpt",
]
