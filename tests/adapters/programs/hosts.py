"""Hosts without an adapter: their sections of the page of programs, and their modules."""

from __future__ import annotations

from typing import Final

MODULES: Final = {
    "Agno": "agno",
    "AutoGen": "autogen_agentchat",
    "Semantic Kernel": "semantic_kernel",
    "smolagents": "smolagents",
    "DSPy": "dspy",
}
