"""Nodes and edges of a document to their models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from devmem.config.agent import ONLY_IN_CONFIG, AgentConfig
from devmem.config.attachments_check import check_attachments
from devmem.config.cycles import warn_about_circle
from devmem.config.document import Path
from devmem.config.elements import Elements, note_name
from devmem.config.node_types import NODE_TYPES, LiteralConfig, PassthroughConfig
from devmem.config.not_supported import warn_about_condition
from devmem.config.placeholders import Placeholders
from devmem.config.reflection import all_keys
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.validate import Validator
from devmem.config.wording import choices, closest, did_you_mean, found, quoted
from devmem.config.workflow import Edge, NodeConfig, Subgraph

_NODE_KEYS: Final = ("id", "type", "description")
_AGENT_KEYS: Final = (*all_keys([AgentConfig]), "thinking")
_DEVALL_AGENT_KEYS: Final = ("tooling", "retry", "input_mode", "skills")
_DEVALL_NODE_KEYS: Final = ("config", "context_window", "log_output", "dynamic", "position")
_EDGE_KEYS: Final = ("from", "to", "trigger", "carry_data", "condition")
_NEAR_MISS: Final = 0.75
_SETTINGS: Final[Mapping[str, type[LiteralConfig | PassthroughConfig]]] = {
    "literal": LiteralConfig,
    "passthrough": PassthroughConfig,
}


class GraphReader:
    """Reads the graph of one document."""

    def __init__(
        self,
        report: Report,
        placeholders: Placeholders,
        validator: Validator,
        declared: Collection[str],
        read_subgraph: Callable[[object, Path], Subgraph | None],
    ) -> None:
        """Make the reader.

        Args:
            report: takes the problems.
            placeholders: expands the values.
            validator: makes the models.
            declared: names of the stores that agents may attach.
            read_subgraph: reads the `config` of a subgraph node, which stands at a path.
        """
        self._report, self._placeholders, self._validator = report, placeholders, validator
        self._declared, self._read_subgraph = declared, read_subgraph
        self._ids: dict[str, Path] = {}

    def read_nodes(self, elements: Elements) -> tuple[NodeConfig, ...]:
        """Return the nodes that can be used; problems are reported."""
        nodes = (self._read_node(value, path) for path, value in elements)
        return tuple(node for node in nodes if node is not None)

    def read_edges(self, elements: Elements) -> tuple[Edge, ...]:
        """Return the edges that can be used, after the nodes; problems are reported."""
        edges = [(path, self._read_edge(value, path)) for path, value in elements]
        usable = [(path, edge) for path, edge in edges if edge is not None]
        for path, edge in usable:
            warn_about_condition(self._report, edge, path)
        warn_about_circle(self._report, usable)
        return tuple(edge for _, edge in usable)

    def read_start(self, elements: Elements) -> tuple[str, ...]:
        """Return the IDs of the nodes that get the workflow's input, after the nodes; problems are reported."""
        start = []
        for path, value in elements:
            id_ = self._placeholders.expand(value, path)
            if not isinstance(id_, str):
                self._report.error(path, f"expected the id of a node, found {found(id_)}")
                continue
            self._check_id(id_, path)
            start.append(id_)
        return tuple(start)

    def _read_node(self, value: object, path: Path) -> NodeConfig | None:
        value = self._placeholders.expand(value, path) if isinstance(value, str) else value
        if not isinstance(value, dict):
            self._report.error(path, f"expected a mapping with `id`, `type` and `config`, found {found(value)}")
            return None
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in _NODE_KEYS if key in value}
        note_name(self._report, self._ids, data.get("id"), (*path, "id"), "node id")
        kind = data.get("type")
        self._check_type(kind, (*path, "type"))
        settings: LiteralConfig | PassthroughConfig | Subgraph | None = None
        misspelt = self._warn_about_misspelt(value, path, ("config", *_NODE_KEYS), _DEVALL_NODE_KEYS)
        if kind == "agent":
            self._check_node_keys(value, path, misspelt)
            data["config"] = self._read_agent(value.get("config"), (*path, "config"))
        elif kind == "subgraph":
            settings = self._read_subgraph(value.get("config"), (*path, "config"))
        elif isinstance(kind, str) and kind in _SETTINGS:
            settings = self._read_settings(_SETTINGS[kind], value.get("config"), (*path, "config"))
        node = self._validator.validate(NodeConfig, data, path)
        if node is not None:
            node.set_settings(settings)
        return node

    def _read_settings(
        self, model: type[LiteralConfig | PassthroughConfig], value: object, path: Path
    ) -> LiteralConfig | PassthroughConfig | None:
        expanded = self._placeholders.expand({} if value is None else value, path)
        return self._validator.validate(model, expanded, path)

    def _check_type(self, kind: object, path: Path) -> None:
        if not isinstance(kind, str) or not kind or kind in NODE_TYPES:
            return
        meant = closest(kind, NODE_TYPES)
        hint = f"; did you mean {meant!r}?" if meant else "; its input is passed on"
        self._report.warn(path, f"devmem knows no node type {quoted(kind)}{hint}", Rule.UNKNOWN_NAME)

    def _warn_about_misspelt(
        self, value: Mapping[Any, Any], path: Path, keys: Sequence[str], others: Sequence[str] = ()
    ) -> set[str]:
        """Warn about keys that nothing reads, and that are nearly one of `keys`; return them.

        Keys that another system reads, `others` among them, may stand anywhere.
        """
        unread = [key for key in value if isinstance(key, str) and key not in (*keys, *others)]
        found = {key: closest(key, keys, cutoff=_NEAR_MISS) for key in unread}
        misspelt = {key: meant for key, meant in found.items() if meant is not None and meant not in value}
        for key, meant in misspelt.items():
            self._report.warn((*path, key), f"this key is not read; did you mean {meant!r}?", Rule.UNKNOWN_KEY)
        return set(misspelt)

    def _check_node_keys(self, value: Mapping[Any, Any], path: Path, misspelt: Collection[str]) -> None:
        config = value.get("config")
        own = config if isinstance(config, dict) else {}
        for key in value:
            if key in ONLY_IN_CONFIG and key not in own:
                message = f"`{key}` belongs inside the agent's `config`, where it is read"
                self._report.error((*path, key), message, Rule.MISPLACED_KEY)
            elif key in _AGENT_KEYS and key not in (*_NODE_KEYS, *_DEVALL_NODE_KEYS, *misspelt, *own):
                message = f"this key is not read here; `{key}` belongs inside `config`"
                self._report.warn((*path, key), message, Rule.MISPLACED_KEY)

    def _read_agent(self, value: object, path: Path) -> AgentConfig | None:
        value = self._placeholders.expand(value, path) if isinstance(value, str) else value
        if not isinstance(value, dict):
            return self._validator.validate(AgentConfig, {} if value is None else value, path)
        self._check_agent_keys(value, path)
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in _AGENT_KEYS if key in value}
        check_attachments(self._report, data.get("memories"), (*path, "memories"), self._declared, self._placeholders)
        return self._validator.validate(AgentConfig, data, path)

    def _check_agent_keys(self, value: Mapping[Any, Any], path: Path) -> None:
        if "memory" in value:
            self._report.error(
                (*path, "memory"),
                "an agent has no `memory` of its own any more: declare the store under the document's `memory` "
                "and name it in the agent's `memories`",
                Rule.MISPLACED_KEY,
            )
        self._warn_about_misspelt(value, path, _AGENT_KEYS, (*_DEVALL_AGENT_KEYS, "memory"))

    def _read_edge(self, value: object, path: Path) -> Edge | None:
        if not isinstance(value, dict):
            return self._validator.validate(Edge, value, path)
        self._warn_about_misspelt(value, path, _EDGE_KEYS)
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in _EDGE_KEYS if key in value}
        for key in ("from", "to"):
            if isinstance(data.get(key), str):
                self._check_id(data[key], (*path, key))
        return self._validator.validate(Edge, data, path)

    def _check_id(self, id_: str, path: Path) -> None:
        if id_ not in self._ids and not self._report.is_full:
            hint = did_you_mean(id_, self._ids)
            message = f"there is no node {quoted(id_)}{hint} Nodes: {choices(self._ids)}."
            self._report.error(path, message, Rule.UNKNOWN_NAME)
