"""Whose memory a run of an agent uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic_ai.tools import RunContext

from devmem import Memory

MemoryOf: TypeAlias = Memory | Callable[[RunContext[Any]], Memory]
"""A memory, or a function that returns that of a run: `lambda run: memory.scoped(user=run.deps.user)`."""


def memory_of(given: MemoryOf, run: RunContext[Any]) -> Memory:
    """Return the memory of a run, whose scope nothing that a model writes leaves."""
    return (given if isinstance(given, Memory) else given(run)).settled()
