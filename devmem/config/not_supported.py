"""Parts of DevAll's (ChatDev 2) graphs that devmem reads over: each is listed, so that nothing is dropped silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from devmem.config.document import Path
from devmem.config.node_types import CARRIED_OUT, NODE_TYPES
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.workflow import Edge

Elements = Sequence[tuple[Path, Any]]

_GRAPH: Final[Mapping[str, str]] = {
    "is_majority_voting": "majority voting is not carried out; the output is that of the last agent",
    "end": "`end` is not read; the output is that of the last agent that ran",
}
_NODE: Final[Mapping[str, str]] = {
    "context_window": "a node keeps no earlier messages here; use a memory instead of `context_window`",
    "dynamic": "the node runs once; `dynamic` is not carried out",
}
_AGENT: Final[Mapping[str, str]] = {
    "tooling": "the agent has no tools here",
    "skills": "the agent has no skills here",
    "retry": "a request that fails is repeated by devmem's own rules; `retry` is not read",
}
_EDGE: Final[Mapping[str, str]] = {
    "process": "the output is passed on as it is; `process` is not carried out",
    "dynamic": "the target runs once; `dynamic` is not carried out",
    "keep_message": "nothing is kept between runs of a node; `keep_message` is not read",
    "clear_context": "nothing is kept between runs of a node; `clear_context` is not read",
    "clear_kept_context": "nothing is kept between runs of a node; `clear_kept_context` is not read",
}


def warn_about_graph(report: Report, graph: object, path: Path) -> None:
    """Warn about settings of a whole graph that are not carried out."""
    _warn_about(report, graph, path, _GRAPH)


def warn_about_nodes(report: Report, elements: Elements) -> None:
    """Warn about nodes, and settings of nodes, that are not carried out.

    Nodes that ask a person are left to the runner: the first of them gets what the person said, the workflow's input.
    """
    for path, node in elements:
        if not isinstance(node, dict):
            continue
        _warn_about(report, node, path, _NODE)
        kind = node.get("type")
        if kind == "agent":
            _warn_about(report, node.get("config"), (*path, "config"), _AGENT)
            _warn_about_input(report, node.get("config"), (*path, "config", "input_mode"))
            _warn_about_thinking(report, node.get("config"), (*path, "config", "thinking"))
        elif isinstance(kind, str) and kind in NODE_TYPES.keys() - CARRIED_OUT - {"human"}:
            message = f"a node of type {kind!r} is not carried out; its input is passed on"
            report.warn((*path, "type"), message, Rule.NOT_SUPPORTED)


def warn_about_edges(report: Report, elements: Elements) -> None:
    """Warn about settings of edges that are not carried out."""
    for path, edge in elements:
        _warn_about(report, edge, path, _EDGE)


def warn_about_condition(report: Report, edge: Edge, path: Path) -> None:
    """Warn about an edge whose condition cannot be evaluated."""
    if edge.condition.function is not None:
        message = (
            f"the condition is the Python function {edge.condition.function!r}, which is not called; "
            "the edge is not followed, and what only it leads to does not run"
        )
        report.warn((*path, "condition"), message, Rule.NOT_SUPPORTED)


def _warn_about_input(report: Report, config: object, path: Path) -> None:
    """Warn about a mode other than DevAll's default, which is how a model gets its input here."""
    mode = config.get("input_mode") if isinstance(config, dict) else None
    if mode not in (None, "messages"):
        message = "the model gets its input as messages; `input_mode` is not read"
        report.warn(path, message, Rule.NOT_SUPPORTED)


def _warn_about_thinking(report: Report, config: object, path: Path) -> None:
    thinking = config.get("thinking") if isinstance(config, dict) else None
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in (None, "reflection"):
        report.warn(path, f"thinking of type {str(kind)[:40]!r} is not carried out", Rule.NOT_SUPPORTED)


def _warn_about(report: Report, mapping: object, path: Path, messages: Mapping[str, str]) -> None:
    for key, message in messages.items():
        if isinstance(mapping, dict) and mapping.get(key):
            report.warn((*path, key), message, Rule.NOT_SUPPORTED)
