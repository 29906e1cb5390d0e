"""Tests of adapters; each host's run where it is installed (`make test-hosts HOSTS=langgraph`)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import devmem

_HOSTS = {
    "agent_framework": "agent_framework",
    "agentuniverse": "agentuniverse",
    "anthropic": "anthropic",
    "chatdev/test_stores.py": "schema_registry",
    "chatdev/test_workflows.py": "schema_registry",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "haystack": "haystack",
    "langchain": "langchain_tests",
    "langgraph": "langgraph",
    "llama_index": "llama_index",
    "metagpt": "metagpt",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "pydantic_ai/test_store.py": "pydantic_ai_harness",
    "strands": "strands",
}


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


collect_ignore = [tests for tests, module in _HOSTS.items() if not _is_installed(module)]


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=None) as memory:
        yield memory


# Asynchronous tests of hosts' suites are run to their end without a plugin.


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of the plugin that the suites are written for."""
    config.addinivalue_line("markers", "asyncio: of pytest-asyncio")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function; leave the others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
