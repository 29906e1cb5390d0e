"""Abilities of stores that keep interactions: reading them by conversation and trace, wording, copying."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

from devmem.model.filters import Filter
from devmem.model.interactions import Interaction
from devmem.model.items import MemoryItem
from devmem.recording.forwarder import Sink


@runtime_checkable
class InteractionLog(Sink, Protocol):
    """A store that keeps records, which a recorder writes and which are copied into other stores."""

    def log(self, conversation: str) -> list[Interaction]:
        """Return all records of a conversation as they happened."""
        ...

    def trace(self, trace: str) -> list[Interaction]:
        """Return all records of a trace as they happened."""
        ...

    def every_record(self) -> Iterator[Interaction]:
        """Return all records, a few at a time."""
        ...

    def copies_of(self, records: Sequence[Interaction]) -> list[MemoryItem]:
        """Return the items that keep records in another store: the same each time, under the records' ids."""
        ...


@runtime_checkable
class PromptContext(Protocol):
    """A store that words its latest interactions for a prompt."""

    def context(
        self,
        *,
        agent: str | None = None,
        where: Filter | None = None,
        max_tokens: int = 2000,
        language: Literal["en", "zh"] | None = None,
    ) -> str:
        """Return the latest interactions as sentences, oldest first, within `max_tokens` estimated tokens.

        Args:
            agent: name of the agent that reads it, which is addressed as "you"; None reads what everybody said.
            where: further restricts it.
            max_tokens: the newest stay within it.
            language: of the sentences; None takes the store's.
        """
        ...
