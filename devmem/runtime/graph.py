"""Which nodes of a graph run, and which messages each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from devmem.config import Edge, Workflow
from devmem.llm import Quotation
from devmem.messages import Message, Role
from devmem.runtime.order import order_nodes
from devmem.runtime.results import NodeResult


class Graph:
    """The edges of a workflow, followed in one pass: a node runs at most once, and no edge is followed back."""

    def __init__(self, workflow: Workflow) -> None:
        names = [node.id for node in workflow.nodes]
        order = order_nodes([*workflow.start, *(name for name in names if name not in workflow.start)], workflow.edges)
        back = {id(edge) for edge in order.ignored}
        self.order = order.nodes
        """The nodes in an order in which each comes after its senders."""
        self.back_edges = order.ignored
        """Edges that lead back to a node that ran already."""
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
        live = [edge for edge in self._incoming[node] if _is_followed(edge, done)]
        is_start = node in self._start
        if not is_start and not any(edge.trigger for edge in live):
            return None
        sources = dict.fromkeys(edge.source for edge in live if edge.carry_data)
        return [*([asked] if is_start else []), *(each for source in sources for each in messages_of(done[source]))]


def _is_followed(edge: Edge, done: Mapping[str, NodeResult]) -> bool:
    return edge.source in done and edge.condition.holds(done[edge.source].text)


def messages_of(result: NodeResult) -> Sequence[Message]:
    """Return what a node passes on: messages as they came, or one with the text that it said."""
    if result.messages:
        return result.messages
    metadata = (result.quotation or Quotation()).metadata() if result.quoted else {}
    return (Message(role=Role.ASSISTANT, content=result.text, source=result.node, metadata=metadata),)
