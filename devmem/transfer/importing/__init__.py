"""Data files to items: conversations and exports that a memory can be filled with."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.transfer.importing.files import FileFormat
    from devmem.transfer.importing.formats import DataFile, open_data, read_records
    from devmem.transfer.importing.records import Record
else:
    _ORIGINS = {
        "devmem.transfer.importing.files": "FileFormat",
        "devmem.transfer.importing.formats": "DataFile open_data read_records",
        "devmem.transfer.importing.records": "Record",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)

__all__ = ["DataFile", "FileFormat", "Record", "open_data", "read_records"]
