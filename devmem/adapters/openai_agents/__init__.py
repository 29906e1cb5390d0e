"""A session of the OpenAI Agents SDK over a memory; needs the extra `openai-agents`."""

from devmem.adapters.hosts import require as _require

_require("agents.memory", package="openai-agents", extra="openai-agents")

from devmem.adapters.openai_agents.recalling import Recall  # noqa: E402 - first the error that names the extra
from devmem.adapters.openai_agents.session import DevmemSession  # noqa: E402

__all__ = ["DevmemSession", "Recall"]
