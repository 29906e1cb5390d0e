"""Which nodes of a graph run, and which messages each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devmem.config.workflow import Edge, Workflow
from devmem.model.caller import Stage
from devmem.model.message import Message, Role
from devmem.model.results import MemoryRetrievalResult, MemoryUpdateResult, StoreFailure
from devmem.models.chat import Quotation, ToolCall, Usage


def order_nodes(nodes: Sequence[str], edges: Sequence[Edge]) -> tuple[tuple[str, ...], tuple[Edge, ...]]:
    """Sort the nodes so that each comes after its senders; the listed order decides between equals (Kahn, 1962).

    Returns:
        the nodes, and the edges that lead back to a node that ran already.
    """
    waiting_for = {node: [edge.source for edge in edges if edge.target == node] for node in nodes}
    left, done = list(nodes), list[str]()
    while left:
        before = {node: _before(node, waiting_for, left) for node in left}
        # Ready is what waits for nothing but its own loop: of a loop that nothing leads into, the first listed node
        # starts, and the edges back to it are passed over.
        ready = next(node for node in left if all(node in before[sender] for sender in before[node]))
        left.remove(ready)
        done.append(ready)
    at = {node: number for number, node in enumerate(done)}
    return tuple(done), tuple(edge for edge in edges if at[edge.source] >= at[edge.target])


def _before(node: str, waiting_for: Mapping[str, Sequence[str]], left: Sequence[str]) -> set[str]:
    """Return the nodes of those left that the node waits for, at any distance."""
    found: set[str] = set()
    ahead = [node]
    while ahead:
        new = {sender for sender in waiting_for[ahead.pop()] if sender in left} - found
        found |= new
        ahead += new
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """Result of one node."""

    node: str
    text: str
    """Text that it passes on."""
    messages: tuple[Message, ...] = ()
    """Messages that it passes on as they came, in the place of its text; empty for an agent."""
    quotation: Quotation | None = None
    """The recalled passages that it only quotes, and the question that they answer."""
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
    """Text of the last node that ran; nodes that devmem does not run count only where there are no others."""
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


class Graph:
    """The edges of a workflow, followed in one pass: a node runs at most once, and no edge is followed back."""

    def __init__(self, workflow: Workflow) -> None:
        names = [node.id for node in workflow.nodes]
        others = [name for name in names if name not in workflow.start]
        self.order, self.back_edges = order_nodes([*workflow.start, *others], workflow.edges)
        """The nodes, each after its senders, and the edges that lead back to a node that ran already."""
        back = {id(edge) for edge in self.back_edges}
        self._incoming: Mapping[str, list[Edge]] = {
            name: [edge for edge in workflow.edges if edge.target == name and id(edge) not in back] for name in names
        }
        entries = [name for name in names if not self._incoming[name]]
        self._start = frozenset(workflow.start or entries)

    def inputs(self, node: str, asked: Message, done: Mapping[str, NodeResult]) -> list[Message] | None:
        """Return what a node gets after the nodes before it are done; None when nothing makes it run.

        An edge counts if its source ran and its condition holds of what the source said. It makes the node run if it
        triggers, and brings the source's output if it carries data. A start node gets the workflow's input as well.
        """
        incoming = [edge for edge in self._incoming[node] if edge.source in done]
        live = [edge for edge in incoming if edge.condition.holds(done[edge.source].text)]
        is_start = self.is_start(node)
        if not is_start and not any(edge.trigger for edge in live):
            return None
        sources = dict.fromkeys(edge.source for edge in live if edge.carry_data)
        return [*([asked] if is_start else []), *(each for source in sources for each in messages_of(done[source]))]

    def is_start(self, node: str) -> bool:
        """Whether a node gets the workflow's input."""
        return node in self._start

    def possible_sources(self, node: str) -> tuple[str, ...] | None:
        """Return the nodes whose output a node may get; None where no edge that may be followed makes it run."""
        edges = [edge for edge in self._incoming[node] if edge.condition.may_hold]
        if not self.is_start(node) and not any(edge.trigger for edge in edges):
            return None
        return tuple(dict.fromkeys(edge.source for edge in edges if edge.carry_data))


def messages_of(result: NodeResult) -> Sequence[Message]:
    """Return what a node passes on: messages as they came, or one with the text that it said."""
    if result.messages:
        return result.messages
    metadata = {} if result.quotation is None else result.quotation.metadata()
    return (Message(role=Role.ASSISTANT, content=result.text, source=result.node, metadata=metadata),)
