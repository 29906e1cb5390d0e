"""Async twins of methods, which do the same in a thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def as_async(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return the async twin of a method, which does the same in a thread, so that the event loop is not blocked."""
    name = method.__name__

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # By its name, so that the method of a subclass is called.
        return await in_thread(getattr(self, name), *args, **kwargs)

    twin.__name__ = f"a{name}"
    twin.__qualname__ = method.__qualname__.replace(name, twin.__name__)
    twin.__doc__ = f"Do what `{name}` does without blocking the event loop."
    return twin


def in_thread_of(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async twin of a function; see `as_async`."""

    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(function, *args, **kwargs)

    twin.__name__ = twin.__qualname__ = f"a{function.__name__}"
    twin.__module__ = function.__module__
    twin.__doc__ = f"Do what `{function.__name__}` does without blocking the event loop."
    return twin


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in a thread, so that the event loop is not blocked."""
    # Imported here: who calls it has an event loop, and a command without one starts sooner.
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)
