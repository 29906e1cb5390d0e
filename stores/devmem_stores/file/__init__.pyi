from devmem_stores.file.config import FileConfig as FileConfig
from devmem_stores.file.store import FileMemory as FileMemory
