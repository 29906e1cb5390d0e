"""A data set of a retrieval benchmark: haystacks of items, and questions whose evidence is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from devmem import MemoryItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and its relevant items."""

    id: str
    text: str
    type: str
    gold: frozenset[str]
    """Ids of the items that are its evidence; never empty."""
    gold_sessions: frozenset[str] = frozenset()
    """Sessions that hold the evidence; empty where the haystack has no sessions."""
    asked_at: datetime | None = None
    """When it is asked, from which "last week" counts; None is now."""
    apart: bool = False
    """Reported under its type, but not counted in `all`."""


@dataclass(frozen=True, kw_only=True)
class Haystack:
    """Items that are stored when the questions are asked."""

    id: str
    items: tuple[MemoryItem, ...]
    questions: tuple[Question, ...]

    @cached_property
    def session_of(self) -> Mapping[str, str]:
        """The session of each item that has one."""
        return {item.id: item.scope.session for item in self.items if item.scope.session is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A data file, read."""

    name: str
    haystacks: tuple[Haystack, ...]
    not_counted: int = 0
    """Questions that name no evidence that is there."""
    left_out: int = 0
    """Number of turns and units whose text is blank; no haystack has them."""

    @property
    def items(self) -> int:
        """Number of items in all haystacks."""
        return sum(len(haystack.items) for haystack in self.haystacks)

    @property
    def questions(self) -> int:
        """Number of questions."""
        return sum(len(haystack.questions) for haystack in self.haystacks)
