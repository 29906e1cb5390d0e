"""Serving over standard streams, for a client that starts the server, or over HTTP on this machine."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches."""


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over standard input and output until it closes them."""

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(run())


def serve_http(server: Server[Any], *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve any number of clients at `http://HOST:PORT/mcp` until the process is stopped.

    Requests that name another host, or come from a page of another origin, are refused.

    Raises:
        ValueError: other machines would reach the host; the server knows no users, so that a proxy has to.
    """
    if host not in LOOPBACK:
        raise ValueError(
            f"a memory is served on this machine only ({', '.join(LOOPBACK)}), not on {host!r}: put a proxy before it "
            "that knows its users"
        )
    app = server.streamable_http_app(host=host)
    uvicorn.run(app, host=host, port=port, log_level="warning")
