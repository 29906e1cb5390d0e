"""Edges that lead in a circle."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from devmem.config.document import Path
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.wording import quoted
from devmem.config.workflow import Edge


def warn_about_circle(report: Report, edges: Sequence[tuple[Path, Edge]]) -> None:
    """Warn about the first circle of edges, at the edge that closes it."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for _, edge in edges:
        sorter.add(edge.target, edge.source)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        around = set(pairwise(circle))
        path = [path for path, edge in edges if (edge.source, edge.target) in around][-1]
        names = " -> ".join(quoted(name) for name in circle)
        message = f"the edges {names} lead in a circle; each node runs once, and no edge is followed back"
        report.warn(path, message, Rule.CYCLE)
