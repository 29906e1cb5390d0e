"""Results of running a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from devmem.llm import Quotation, ToolCall, Usage
from devmem.messages import Message
from devmem.model.results import MemoryRetrievalResult, MemoryUpdateResult, StoreFailure
from devmem.model.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """Result of one node."""

    node: str
    text: str
    """Text that it passes on."""
    messages: tuple[Message, ...] = ()
    """Messages that it passes on as they came, in the place of its text; empty for an agent."""
    quoted: bool = False
    """Whether it only quotes recalled items."""
    quotation: Quotation | None = None
    """The passages that it quotes, and the question that they answer."""
    recalled: Mapping[Stage, MemoryRetrievalResult] = field(default_factory=dict)
    """Result of each stage at which memory was searched and something was found or failed."""
    context: MemoryRetrievalResult | None = None
    """Context of the answer: everything recalled up to then, each item once."""
    written: Mapping[Stage, MemoryUpdateResult] = field(default_factory=dict)
    """Result of the writes, at each stage that writes."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that its model wants to be called; devmem calls none."""
    usage: Usage = field(default_factory=Usage)
    """Tokens that its requests to the model cost, as far as the service says."""

    @property
    def failures(self) -> tuple[StoreFailure, ...]:
        """Every store that could not do its part."""
        found = [failure for result in self.recalled.values() for failure in result.failures]
        return (*found, *(failure for result in self.written.values() for failure in result.failures))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of a run of a workflow."""

    nodes: tuple[NodeResult, ...]
    """In the order in which they ran."""
    output: str
    """Answer of the last agent node that ran."""
    warnings: tuple[str, ...] = ()
    """Nodes and edges that were passed over, and why."""
    trace: str | None = None
    """Id of the trace as which the run is recorded; None where it is not."""
    hidden: Mapping[str, int] = field(default_factory=dict)
    """Number of items by store that a run without a user did not see because they are bound to users; stores without
    such items are left out."""

    @property
    def usage(self) -> Usage:
        """Tokens that the run's requests to chat models cost, as far as the services say."""
        return sum((node.usage for node in self.nodes), Usage())
