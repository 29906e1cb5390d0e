"""Finds our parts of a document: at the root, or under `graph` where DevAll (ChatDev 2) has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from devmem.config.document import Path
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.wording import closest, found
from devmem.config.workflow import WorkflowDocument

ROOT_ONLY: Final = ("version", "vars")
"""Parts that stand at the root in DevAll's documents too."""
_PARTS: Final = tuple(WorkflowDocument.model_fields)
_OF_SUBGRAPHS: Final = ("memory", "start", "nodes", "edges")
_FOREIGN: Final = {"memories": "memory", "stores": "memory", "variables": "vars"}
_NEAR_MISS: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of our parts of the document, as it was written."""

    path: Path
    value: Any


def find_parts(report: Report) -> Mapping[str, Part]:
    """Return our parts by name; those that are absent are left out. What is wrong with the layout is reported."""
    root = report.document.data
    graph = root.get("graph")
    parts = {name: Part(path=(name,), value=root[name]) for name in _PARTS if name in root}
    _warn_near_misses(report, (), root)
    if isinstance(graph, dict):
        _warn_near_misses(report, ("graph",), graph)
        for name in _PARTS:
            if name in graph:
                _add_from_graph(report, parts, name, graph[name])
    elif "graph" in root and not parts.keys() & {"memory", "nodes"}:
        report.error(("graph",), f"expected a mapping, found {found(graph)}")
    if "memory" not in parts and "nodes" not in parts and "graph" not in root:
        report.error((), "there is neither `memory` nor `nodes`; this is not a workflow", Rule.INVALID_FILE)
    return parts


def parts_of_subgraph(report: Report, graph: Mapping[Any, Any], path: Path) -> Mapping[str, Part]:
    """Return the parts of a graph that stands in a node, at `path`; what is wrong with the layout is reported."""
    _warn_near_misses(report, path, graph)
    if "vars" in graph:
        message = "this key is not read; `vars` belongs at the root of the document"
        report.warn((*path, "vars"), message, Rule.MISPLACED_KEY)
    return {name: Part(path=(*path, name), value=graph[name]) for name in _OF_SUBGRAPHS if name in graph}


def _add_from_graph(report: Report, parts: dict[str, Part], name: str, value: object) -> None:
    path = ("graph", name)
    if name in ROOT_ONLY:
        if name == "vars":
            report.error(path, "`vars` belongs at the root of the document, beside `graph`", Rule.MISPLACED_KEY)
    elif name in parts:
        line = report.document.line((name,))
        report.error(
            path, f"`{name}` stands here and at the root, on line {line}; keep one of them", Rule.DUPLICATE_NAME
        )
    else:
        parts[name] = Part(path=path, value=value)


def _warn_near_misses(report: Report, path: Path, mapping: Mapping[Any, Any]) -> None:
    for key in mapping:
        if not isinstance(key, str) or key in _PARTS or key == "graph":
            continue
        meant = _FOREIGN.get(key) or closest(key, _PARTS, cutoff=_NEAR_MISS)
        if meant and meant not in mapping:
            report.warn((*path, key), f"this key is not read; did you mean {meant!r}?", Rule.UNKNOWN_KEY)
