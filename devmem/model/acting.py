"""Who changes items just now, and in which run: set where a node or a command begins, recorded with each change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who changes items, as far as it is known."""

    name: str | None = None
    """The agent, node, tool or command."""
    run: str | None = None
    """Id of the run that the changes belong to."""


_CURRENT: Final = ContextVar("devmem_actor", default=Actor())  # noqa: B039 - it is frozen


@contextmanager
def acting_as(name: str | None = None, *, run: str | None = None, by_default: bool = False) -> Iterator[None]:
    """Have changes in the block recorded as those of an actor; what is None stays as it is around the block.

    Args:
        name: the agent, node, tool or command.
        run: id of the run that the changes belong to.
        by_default: whether the name counts only where none is known around the block.
    """
    outer = _CURRENT.get()
    chosen = outer.name or name if by_default else name or outer.name
    token = _CURRENT.set(Actor(name=chosen, run=run or outer.run))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_actor() -> Actor:
    """Return who changes items here; threads that were started without a copy of the context know nobody."""
    return _CURRENT.get()
