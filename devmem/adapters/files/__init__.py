"""Text files that a model keeps in a memory, for the hosts whose memory is a folder of files.

They need no framework: an adapter puts a host's tools on top of `FileCommands`, or of `MemoryFiles` itself.
"""

from devmem.adapters.files.commands import FileCommands
from devmem.adapters.files.store import ROOT, Beside, FolderLimits, MemoryFile, MemoryFiles

__all__ = ["ROOT", "Beside", "FileCommands", "FolderLimits", "MemoryFile", "MemoryFiles"]
