"""Data files to items: conversations and exports that a memory can be filled with."""

from devmem.transfer.importing.file_format import FileFormat
from devmem.transfer.importing.formats import DataFile, detect_format, open_data, read_records
from devmem.transfer.importing.records import Record
from devmem.transfer.importing.times import parse_time

__all__ = ["DataFile", "FileFormat", "Record", "detect_format", "open_data", "parse_time", "read_records"]
