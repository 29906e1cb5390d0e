"""Tests of a suite that apply only where a place or a store can do something."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., None])

_NEEDS = "_abilities_needed"


def needs(*abilities: str) -> Callable[[T], T]:
    """Mark a test as one for classes whose attributes of these names are true."""

    def mark(test: T) -> T:
        setattr(test, _NEEDS, abilities)
        return test

    return mark


class OnlyWhatApplies:
    """Base of a suite: a subclass that says it cannot do something has no test of it, so none is left to skip."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, test in inspect.getmembers(cls, inspect.isfunction):
            if not all(getattr(cls, ability) for ability in getattr(test, _NEEDS, ())):
                # pytest collects what can be called.
                setattr(cls, name, None)
