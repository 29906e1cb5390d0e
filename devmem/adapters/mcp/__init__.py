"""An MCP server over a memory; needs the extra `mcp`."""

from devmem.adapters.hosts import require as _require

_require("mcp", package="mcp", extra="mcp")

from devmem.adapters.mcp.server import MemoryServer, ServerOptions, make_server, serve_http, serve_stdio

__all__ = ["MemoryServer", "ServerOptions", "make_server", "serve_http", "serve_stdio"]
