"""A LangGraph store over a memory; needs the extra `langgraph`."""

from devmem.adapters.hosts import require as _require

_require("langgraph.store.base", package="langgraph", extra="langgraph")

from devmem.adapters.langgraph.store import DevmemStore  # noqa: E402 - first the error that names the extra

__all__ = ["DevmemStore"]
