"""Who asks a memory or writes to it, and what was said to them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

from devmem.model.items import Scope


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
