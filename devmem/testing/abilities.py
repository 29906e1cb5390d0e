"""Tests of a suite that apply only to collections or stores with an ability."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., None])

_NEEDS = "_abilities_needed"


def needs(*abilities: str) -> Callable[[T], T]:
    """Apply a test only to classes whose attributes of these names are true."""

    def mark(test: T) -> T:
        setattr(test, _NEEDS, abilities)
        return test

    return mark


class OnlyWhatApplies:
    """Base of a suite: a subclass without an ability has no tests of it, so that none is skipped."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, test in inspect.getmembers(cls, inspect.isfunction):
            if not all(getattr(cls, ability) for ability in getattr(test, _NEEDS, ())):
                # pytest collects what can be called.
                setattr(cls, name, None)
