"""Message flow as text for diagram tools: Mermaid (https://mermaid.js.org) and Graphviz (https://graphviz.org)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from devmem.messages import ROUTE_ALL
from devmem.text.display import one_line, well_formed
from devmem.text.sentences import shorten
from devmem.views.flow import FlowEdge, Transfer, participants_of

_SHOWN: Final = 60
"""Characters of a name, a cause or a message in a label."""
# Mermaid reads #, ;, quotes, brackets, backticks and % as syntax in places that differ by diagram; never their numbers.
_PLAIN: Final = re.compile(r"[^\W_]|[ .,_/()?!+=*'-]")


def mermaid_text(text: str) -> str:
    """Return a text for any Mermaid label: a character that could be syntax becomes `#NUMBER;`."""
    return "".join(c if _PLAIN.fullmatch(c) else f"#{ord(c)};" for c in one_line(well_formed(text)))


def dot_text(text: str) -> str:
    """Return a text as a quoted DOT string that Graphviz shows unchanged."""
    safe = one_line(well_formed(text)).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{safe}"'


def name_label(name: str) -> str:
    """Return the label of a participant."""
    return "everyone" if name == ROUTE_ALL else _short(name)


def edge_label(edge: FlowEdge) -> str:
    """Return the cause, without its module, and the number of times it occurred."""
    cause = _short(_action(edge.cause))
    times = f"{edge.count}x" if edge.count > 1 else ""
    return f"{cause} {times}".strip() or "1x"


def _action(cause: str) -> str:
    return cause.rsplit(".", 1)[-1] if re.fullmatch(r"\w+(\.\w+)+", cause) else cause


def _short(text: str) -> str:
    return shorten(one_line(text), _SHOWN)


def mermaid_flowchart(edges: Sequence[FlowEdge]) -> Iterator[str]:
    """Yield the lines of a diagram with every participant, and an arrow for each cause with its count."""
    ids = _ids(edges)
    yield "flowchart LR\n"
    for name, node in ids.items():
        yield f'    {node}["{mermaid_text(name_label(name))}"]\n'
    for edge in edges:
        yield f'    {ids[edge.sender]} -->|"{mermaid_text(edge_label(edge))}"| {ids[edge.receiver]}\n'


def mermaid_sequence(transfers: Sequence[Transfer]) -> Iterator[str]:
    """Yield the lines of a diagram with every message in order, by its first words and its cause."""
    ids = _ids(transfers)
    yield "sequenceDiagram\n"
    for name, node in ids.items():
        yield f"    participant {node} as {mermaid_text(name_label(name))}\n"
    for one in transfers:
        cause = f" ({_short(_action(one.cause))})" if one.cause else ""
        label = mermaid_text(_short(one.text) + cause) or "#8230;"
        yield f"    {ids[one.sender]}->>{ids[one.receiver]}: {label}\n"


def dot_graph(edges: Sequence[FlowEdge]) -> Iterator[str]:
    """Yield the lines of a diagram with every participant, and an arrow for each cause with its count."""
    ids = _ids(edges)
    yield "digraph flow {\n    rankdir=LR;\n    node [shape=box, style=rounded];\n"
    for name, node in ids.items():
        yield f"    {node} [label={dot_text(name_label(name))}];\n"
    for edge in edges:
        yield f"    {ids[edge.sender]} -> {ids[edge.receiver]} [label={dot_text(edge_label(edge))}];\n"
    yield "}\n"


def _ids(edges: Sequence[FlowEdge | Transfer]) -> dict[str, str]:
    return {name: f"n{at}" for at, name in enumerate(participants_of(edges))}
