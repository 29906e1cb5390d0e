"""A server over a memory, and a client in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError

import devmem
from devmem.adapters.mcp import ServerOptions, make_server

T = TypeVar("T")


def ask(memory: devmem.Memory, question: Callable[[Client], Awaitable[T]], options: ServerOptions | None = None) -> T:
    """Return a client's answer to one question over a server's own connection.

    Raises:
        MCPError: the server answered with an error.
    """

    async def asking() -> T | MCPError:
        async with Client(make_server(memory, options)) as client:
            try:
                return await question(client)
            except MCPError as error:
                # Raised in here it would reach the test within groups of the client's tasks.
                return error

    answer = asyncio.run(asking())
    if isinstance(answer, MCPError):
        raise answer
    return answer


class Tools:
    """Calls the tools of a memory's server."""

    def __init__(self, memory: devmem.Memory, options: ServerOptions | None = None) -> None:
        self._memory, self._options = memory, options

    def __call__(self, name: str, **arguments: object) -> dict[str, Any]:
        """Return the structured result of a call that works."""
        result = self.result(name, **arguments)
        assert not result.is_error, result.content
        return dict(result.structured_content)

    def text(self, name: str, **arguments: object) -> str:
        return str(self.result(name, **arguments).content[0].text)

    def error(self, name: str, **arguments: object) -> str:
        """Return the text of a call that does not work."""
        result = self.result(name, **arguments)
        assert result.is_error
        return str(result.content[0].text)

    def result(self, name: str, **arguments: object) -> Any:
        return ask(self._memory, lambda client: client.call_tool(name, arguments), self._options)


@pytest.fixture
def tools(memory: devmem.Memory) -> Tools:
    return Tools(memory)
