"""A trace as a tree of calls, and a conversation as a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from devmem.model.interactions import Interaction, InteractionKind, in_order


@dataclass(slots=True, kw_only=True)
class CallNode:
    """A call and the calls that were made from within it."""

    call: Interaction
    answer: Interaction | None = None
    """Output or error; None while the call goes on, or where its end was not recorded."""
    calls: list[CallNode] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """How long the call took."""
        return self.answer.event_time - self.call.event_time if self.answer else None


def call_tree(records: Iterable[Interaction]) -> list[CallNode]:
    """Return the calls of a trace as trees, in the order of their beginnings; one without its parent is a root."""
    ordered = in_order(records)
    nodes = {one.id: CallNode(call=one) for one in ordered if one.kind is InteractionKind.INPUT}
    by_pair = {node.call.pair_id: node for node in nodes.values()}
    roots: list[CallNode] = []
    for one in ordered:
        if one.kind is InteractionKind.INPUT:
            parent = nodes.get(one.parent_id or "")
            (parent.calls if parent else roots).append(nodes[one.id])
        elif (node := by_pair.get(one.pair_id)) is not None:
            node.answer = one
    return roots


def tree_lines(roots: Iterable[CallNode], indent: str = "") -> Iterator[str]:
    """Return the lines of a tree of calls."""
    for node in roots:
        took = "" if node.seconds is None else f" ({node.seconds:.3f} s)"
        call, answer = node.call, node.answer
        yield f"{indent}{call.source.name} -> {call.target.type.value} {call.target.name}{took}: {_line(call.content)}"
        yield from tree_lines(node.calls, indent + "  ")
        if answer is not None:
            mark = "!" if answer.kind is InteractionKind.ERROR else "="
            yield f"{indent}  {mark} {_line(answer.content)}"


def timeline_lines(records: Iterable[Interaction]) -> Iterator[str]:
    """Return a line a record: when, who to whom, and what."""
    for one in in_order(records):
        when = datetime.fromtimestamp(one.event_time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        yield f"{when}  {one.source.name} -> {one.target.name}  {one.kind.value}: {_line(one.content)}"


def _line(text: str) -> str:
    return " ".join(text.split())
