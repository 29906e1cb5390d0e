"""Claude's memory tool over a memory: the files that Claude keeps are items that every program finds.

tool = DevmemMemoryTool(devmem.open("notes.db").scoped(user="ann"))
client.beta.messages.tool_runner(model=MODEL, max_tokens=1024, messages=messages, tools=[tool])
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from pydantic import ValidationError

from devmem.adapters.files import FileCommands, FolderLimits
from devmem.adapters.hosts import require as _require
from devmem.adapters.hosts import writing
from devmem.errors import DevmemError, MemoryFileError
from devmem.memory import Memory

_require("anthropic.lib.tools", package="anthropic", extra="anthropic")

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from anyio.to_thread import run_sync

__all__ = ["AsyncDevmemMemoryTool", "DevmemMemoryTool"]

Command: TypeAlias = (
    BetaMemoryTool20250818ViewCommand
    | BetaMemoryTool20250818CreateCommand
    | BetaMemoryTool20250818StrReplaceCommand
    | BetaMemoryTool20250818InsertCommand
    | BetaMemoryTool20250818DeleteCommand
    | BetaMemoryTool20250818RenameCommand
)
_HOST: Final = "anthropic"
_LOG: Final = logging.getLogger(__name__)


def _carry_out(commands: FileCommands, command: Command) -> str:
    """Carry out a command and return what Claude is told.

    Raises:
        ToolError: it cannot be carried out; Claude is told why, and the conversation goes on.
    """
    try:
        # The SDK makes commands of whatever Claude wrote, without checking it.
        checked = type(command).model_validate(command.model_dump(warnings=False))
        with writing(_HOST, commands.files.memory):
            # The commands have the names and arguments of Claude's.
            carry_out: Callable[..., str] = getattr(commands, checked.command)
            return carry_out(**checked.model_dump(exclude={"command"}))
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ToolError(f"Invalid arguments of `{command.command}`: {'; '.join(problems)}") from error
    except MemoryFileError as error:
        raise ToolError(str(error)) from error
    except DevmemError as error:
        _LOG.error("Claude's memory command %r failed: %s", command.command, error)
        raise ToolError(f"The memory cannot do this now: {error}") from error


def _clear(commands: FileCommands) -> str:
    with writing(_HOST, commands.files.memory):
        return commands.clear()


class _MemoryTool:
    """The part that both forms of the tool have."""

    def __init__(
        self,
        memory: Memory,
        *,
        limits: FolderLimits | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        """Take the files of a memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which no path of Claude's leaves.
            limits: maximum number and size of files.
            cache_control: where the service caches the request's tools.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg] # of the SDK's class, which comes next
        self._commands = FileCommands(memory, limits=limits)


class DevmemMemoryTool(_MemoryTool, BetaAbstractMemoryTool):  # type: ignore[misc] # not in the type checkers' environment
    """The memory tool of `anthropic.Anthropic` over a memory."""

    def _command(self, command: Command) -> str:
        return _carry_out(self._commands, command)

    # The SDK has a method for each command, and a command names itself.
    view = create = str_replace = insert = delete = rename = _command

    def clear_all_memory(self) -> str:
        """Delete all files of the scope; what else is in the memory stays."""
        return _clear(self._commands)


class AsyncDevmemMemoryTool(_MemoryTool, BetaAsyncAbstractMemoryTool):  # type: ignore[misc] # see above
    """The memory tool of `anthropic.AsyncAnthropic` over a memory; the event loop is not blocked."""

    async def _command(self, command: Command) -> str:
        return await run_sync(_carry_out, self._commands, command)

    view = create = str_replace = insert = delete = rename = _command

    async def clear_all_memory(self) -> str:
        """Delete all files of the scope; what else is in the memory stays."""
        return await run_sync(_clear, self._commands)
