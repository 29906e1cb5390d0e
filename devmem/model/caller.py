"""Who asks a memory or writes to it, and what was said to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from devmem.model.border import check_characters, clean_fields

if TYPE_CHECKING:
    from devmem.model.items import Scope

DEFAULT_SESSION: Final = "default"
"""Session of a workflow where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The one that asks a memory or writes to it, and the call of it that is in progress.

    It says who acts. Whom items belong to, and which of them are seen, is said by scopes and filters.
    """

    node: str = ""
    """Id of the workflow's node; empty outside of workflows."""
    agent: str = ""
    """Name of the agent; empty where there is none."""
    conversation: str | None = None
    trace: str | None = None
    call: str | None = None
    """Id of the call, the same for all that is recorded of it."""

    @property
    def name(self) -> str:
        """The agent's name, or else the node's id."""
        return self.agent or self.node

    def completed_by(self, other: Caller) -> Self:
        """Return the caller with the parts of another one where its own are open."""
        return replace(
            self, **{part.name: getattr(self, part.name) or getattr(other, part.name) for part in fields(self)}
        )

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the caller that a scope names."""
        return cls(
            agent=scope.agent or "",
            conversation=scope.conversation or scope.session,
            trace=scope.trace or scope.run,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Text that one sender said to a node."""

    text: str
    speaker: str = ""
    """Name of the user or the node; empty where it is unknown."""
    role: str = "user"
    """The speaker's role: `user`, `assistant`, `tool` or `system`."""

    def __post_init__(self) -> None:
        clean_fields(self, "text", "speaker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Name and run that the history records for a change."""

    name: str | None = None
    """The agent, node, tool or command."""
    run: str | None = None
    """Id of the run that the changes belong to."""


_CURRENT: Final = ContextVar("devmem_actor", default=Actor())  # noqa: B039 - it is frozen


@contextmanager
def acting_as(name: str | None = None, *, run: str | None = None, by_default: bool = False) -> Iterator[None]:
    """Have changes in the block recorded as those of an actor; None keeps what holds around the block.

    Args:
        name: the agent, node, tool or command.
        run: id of the run that the changes belong to.
        by_default: whether the name counts only where none is known around the block.
    """
    for part, value in (("name", name), ("run", run)):
        if isinstance(value, str):
            check_characters(part, value)
    outer = _CURRENT.get()
    chosen = outer.name or name if by_default else name or outer.name
    token = _CURRENT.set(Actor(name=chosen, run=run or outer.run))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_actor() -> Actor:
    """Return who changes items here; a thread that was started without a copy of the context has no actor."""
    return _CURRENT.get()


_ASKED_AT: Final[ContextVar[datetime | float | None]] = ContextVar("devmem_asked_at", default=None)


@contextmanager
def asking_at(when: datetime | float | None, *, by_default: bool = False) -> Iterator[None]:
    """Have questions in the block asked at a time, for frameworks whose searches take none; None changes nothing.

    Args:
        when: the time from which "last week" in a question counts, with the asker's zone; seconds since the epoch have
            none. A search's own `asked_at` takes precedence.
        by_default: whether it counts only where no time is known around the block.
    """
    outer = _ASKED_AT.get()
    token = _ASKED_AT.set(outer if when is None or (by_default and outer is not None) else when)
    try:
        yield
    finally:
        _ASKED_AT.reset(token)


def current_asked_at() -> datetime | float | None:
    """Return the time of questions here, where `asking_at` named one."""
    return _ASKED_AT.get()


class Stage(StrEnum):
    """A step of an agent's execution, in the order in which they happen."""

    PRE = "pre"
    PLAN = "plan"
    GEN = "gen"
    CRITIQUE = "critique"
    FINISHED = "finished"

    @classmethod
    def _missing_(cls, value: object) -> Stage | None:
        return cls(ALIASES[value]) if isinstance(value, str) and value in ALIASES else None


ALIASES: Final = {"pre_gen_thinking": "plan", "post_gen_thinking": "critique"}
"""DevAll's (ChatDev 2) names of stages; `Stage("pre_gen_thinking") is Stage.PLAN`."""

RETRIEVING: Final = (Stage.PRE, Stage.PLAN, Stage.GEN, Stage.CRITIQUE)
"""The stages at which an attachment that names none retrieves."""
