"""What running a workflow gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from devmem.llm import Quotation
from devmem.messages import Message
from devmem.model.results import MemoryRetrievalResult, MemoryUpdateResult, StoreFailure
from devmem.model.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What one node did."""

    node: str
    text: str
    """What it passes on."""
    messages: tuple[Message, ...] = ()
    """Messages that it passes on as they came, in the place of its text; empty for an agent."""
    quoted: bool = False
    """It only quotes what was recalled."""
    quotation: Quotation | None = None
    """The passages that it quotes, and the question that they answer."""
    recalled: Mapping[Stage, MemoryRetrievalResult] = field(default_factory=dict)
    """What memory found at each stage at which it was asked and had something to say."""
    context: MemoryRetrievalResult | None = None
    """What the answer was made with: everything recalled up to then, each item once."""
    written: Mapping[Stage, MemoryUpdateResult] = field(default_factory=dict)
    """What the stores did with what was written, at each stage that writes."""

    @property
    def failures(self) -> tuple[StoreFailure, ...]:
        """Every store that could not do its part."""
        found = [failure for result in self.recalled.values() for failure in result.failures]
        return (*found, *(failure for result in self.written.values() for failure in result.failures))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run of a workflow did."""

    nodes: tuple[NodeResult, ...]
    """In the order in which they ran."""
    output: str
    """What the last agent node said."""
    warnings: tuple[str, ...] = ()
    """What was passed over, such as nodes that are not agents."""
    hidden: Mapping[str, int] = field(default_factory=dict)
    """Number of items by store that a run without a user did not see because they are bound to users; stores without
    such items are left out."""
