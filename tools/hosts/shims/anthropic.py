"""devmem's tools in the place of the SDK's memory tools on a file system.

The tests read the files that a tool keeps from its folder: reading `base_path` writes them there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic.lib.tools._beta_builtin_memory_tool as builtin

import devmem
from devmem.adapters.anthropic import AsyncDevmemMemoryTool, DevmemMemoryTool
from devmem.adapters.files import ROOT, FolderLimits, MemoryFiles

_LIMITS = FolderLimits(max_chars=10_000_000)
"""One test creates a file of a million lines."""


class _Folder:
    """Makes a tool with a folder as the SDK's tools are made."""

    def __init__(self, base_path: str = "./memory") -> None:
        self._folder = Path(base_path)
        memory = devmem.open(":memory:", embedding=None)
        self._files = MemoryFiles(memory)
        super().__init__(memory, limits=_LIMITS)  # type: ignore[call-arg]

    @property
    def base_path(self) -> Path:
        """The folder, with the files as they are now."""
        for file in self._files.within(ROOT):
            target = self._folder / file.path.removeprefix("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.text.encode())
        return self._folder

    @property
    def memory_root(self) -> Path:
        """Folder below which the tests make symbolic links."""
        return self.base_path / "memories"


class SyncFolderTool(_Folder, DevmemMemoryTool):
    """A tool that is made as `BetaLocalFilesystemMemoryTool` is."""


class AsyncFolderTool(_Folder, AsyncDevmemMemoryTool):
    """A tool that is made as `BetaAsyncLocalFilesystemMemoryTool` is."""


_builtin: Any = builtin
_builtin.BetaLocalFilesystemMemoryTool = SyncFolderTool
_builtin.BetaAsyncLocalFilesystemMemoryTool = AsyncFolderTool
