"""A trace as a tree of calls, and a conversation as a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from devmem.model.interactions import Interaction, InteractionKind, in_order

SHOWN: Final = 200
"""Characters of a content that are shown where nothing else is asked for."""


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
    """Return the calls of a trace as trees, in the order of their beginnings; one without its parent is a root.

    An answer whose question is not among the records, as one that an agent's attachment stored, stands by itself.
    """
    ordered = in_order(records)
    nodes = {one.id: CallNode(call=one) for one in ordered if one.kind is InteractionKind.INPUT}
    by_pair = {node.call.pair_id: node for node in nodes.values()}
    roots: list[CallNode] = []
    for one in ordered:
        if one.kind is not InteractionKind.INPUT and (node := by_pair.get(one.pair_id)) is not None:
            node.answer = one
        elif one.kind is not InteractionKind.SUMMARY:
            parent = nodes.get(one.parent_id or "")
            (parent.calls if parent else roots).append(nodes.get(one.id) or CallNode(call=one))
    return roots


def tree_lines(roots: Iterable[CallNode], indent: str = "", *, length: int | None = SHOWN) -> Iterator[str]:
    """Return the lines of a tree of calls.

    Args:
        roots: the outermost calls.
        indent: begins every line.
        length: maximum number of characters of a content; None shows all of them.
    """
    for node in roots:
        took = "" if node.seconds is None else f" ({node.seconds:.3f} s)"
        call, answer = node.call, node.answer
        sides = f"{_line(call.source.name)} -> {call.target.type.value} {_line(call.target.name)}"
        yield f"{indent}{sides}{took}: {_line(call.content, length)}"
        yield from tree_lines(node.calls, indent + "  ", length=length)
        if answer is not None:
            mark = "!" if answer.kind is InteractionKind.ERROR else "="
            yield f"{indent}  {mark} {_line(answer.content, length)}"


def timeline_lines(records: Iterable[Interaction], *, length: int | None = SHOWN) -> Iterator[str]:
    """Return a line a record: when, who to whom, and what.

    Args:
        records: the records, in any order.
        length: maximum number of characters of a content; None shows all of them.
    """
    for one in in_order(records):
        when = datetime.fromtimestamp(one.event_time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        sides = f"{_line(one.source.name)} -> {_line(one.target.name)}"
        yield f"{when}  {sides}  {one.kind.value}: {_line(one.content, length)}"


def _line(text: str, length: int | None = None) -> str:
    # Names as well as contents: a line feed in one would begin a line that looks like a record.
    line = " ".join(text.split())
    return line if length is None or len(line) <= length else f"{line[: length - 1]}…"
