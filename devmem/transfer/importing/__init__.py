"""Data files to items: conversations and exports that a memory can be filled with."""

from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import DataFile, detect_format, open_data, read_records
from devmem.transfer.importing.records import Record, parse_time

__all__ = ["DataFile", "FileFormat", "Record", "detect_format", "open_data", "parse_time", "read_records"]
