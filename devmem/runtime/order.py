"""In which order nodes run, and whose output each one gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devmem.config import Edge


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrder:
    """The order of a workflow's nodes."""

    nodes: tuple[str, ...]
    senders: dict[str, tuple[str, ...]]
    """The nodes whose output each node gets, in the order of the edges; none means the workflow's own input."""
    ignored: tuple[Edge, ...]
    """Edges that lead back to a node that already ran: loops are not repeated."""


def order_nodes(nodes: Sequence[str], edges: Sequence[Edge]) -> NodeOrder:
    """Sort the nodes so that each comes after its senders; the listed order decides between equals (Kahn, 1962)."""
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
    ignored = tuple(edge for edge in edges if at[edge.source] >= at[edge.target])
    senders = {
        node: tuple(dict.fromkeys(sender for sender in waiting_for[node] if at[sender] < at[node])) for node in done
    }
    return NodeOrder(nodes=tuple(done), senders=senders, ignored=ignored)


def _before(node: str, waiting_for: Mapping[str, Sequence[str]], left: Sequence[str]) -> set[str]:
    """Return the nodes of those left that the node waits for, at any distance."""
    found: set[str] = set()
    ahead = [node]
    while ahead:
        new = {sender for sender in waiting_for[ahead.pop()] if sender in left} - found
        found |= new
        ahead += new
    return found
