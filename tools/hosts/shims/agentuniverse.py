"""Stand-ins for the packages that agentUniverse only imports, and an application for its components.

agentUniverse 0.0.19.1 pins numpy below 2, which devmem needs, and some sixty packages of which its memory uses none.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from tools.hosts.shims.stand_ins import stand_in_for

_IMPORTED: Final = (
    "PIL anyio docx flask google grpc httpx langchain langchain_community langchain_core mcp openai opentelemetry "
    "opentracing sqlalchemy tiktoken"
)


def prepare() -> None:
    """Let agentUniverse be imported, and have an application without models."""
    stand_in_for(_IMPORTED.split())
    from agentuniverse.base.config.application_configer.application_config_manager import ApplicationConfigManager

    ApplicationConfigManager().app_configer = SimpleNamespace(base_info_appname="tests", llm_configer_map={})
