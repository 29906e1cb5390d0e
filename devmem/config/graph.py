"""A graph of a document: its stores, nodes and edges, and the subgraphs in it, which have the same."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from devmem.config.agent import NODE_TYPES, ONLY_IN_CONFIG, AgentConfig, LiteralConfig, PassthroughConfig
from devmem.config.base import all_keys
from devmem.config.checks import check_attachments, warn_about_attachments, warn_about_circle
from devmem.config.compose import compose
from devmem.config.document import DocumentPath, path_text
from devmem.config.findings import Rule, choices, closest, did_you_mean, found, quoted, read_text
from devmem.config.placeholders import Environment, Placeholders, Unresolved
from devmem.config.report import Report
from devmem.config.store import StoreDeclaration, StoreTypes
from devmem.config.store_reading import (
    Elements,
    StoreReader,
    elements_of,
    note_name,
    warn_about_condition,
    warn_about_edges,
    warn_about_graph,
    warn_about_nodes,
)
from devmem.config.validate import Validator
from devmem.config.workflow import Edge, NodeConfig, Part, Subgraph, find_parts, parts_of_subgraph, unset_message
from devmem.errors import ConfigError

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
        read_subgraph: Callable[[object, DocumentPath], Subgraph | None],
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
        self._ids: dict[str, DocumentPath] = {}

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

    def _read_node(self, value: object, path: DocumentPath) -> NodeConfig | None:
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
        self, model: type[LiteralConfig | PassthroughConfig], value: object, path: DocumentPath
    ) -> LiteralConfig | PassthroughConfig | None:
        expanded = self._placeholders.expand({} if value is None else value, path)
        return self._validator.validate(model, expanded, path)

    def _check_type(self, kind: object, path: DocumentPath) -> None:
        if not isinstance(kind, str) or not kind or kind in NODE_TYPES:
            return
        meant = closest(kind, NODE_TYPES)
        hint = f"; did you mean {meant!r}?" if meant else "; its input is passed on"
        self._report.warn(path, f"devmem knows no node type {quoted(kind)}{hint}", Rule.UNKNOWN_NAME)

    def _warn_about_misspelt(
        self, value: Mapping[Any, Any], path: DocumentPath, keys: Sequence[str], others: Sequence[str] = ()
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

    def _check_node_keys(self, value: Mapping[Any, Any], path: DocumentPath, misspelt: Collection[str]) -> None:
        config = value.get("config")
        own = config if isinstance(config, dict) else {}
        for key in value:
            if key in ONLY_IN_CONFIG and key not in own:
                message = f"`{key}` belongs inside the agent's `config`, where it is read"
                self._report.error((*path, key), message, Rule.MISPLACED_KEY)
            elif key in _AGENT_KEYS and key not in (*_NODE_KEYS, *_DEVALL_NODE_KEYS, *misspelt, *own):
                message = f"this key is not read here; `{key}` belongs inside `config`"
                self._report.warn((*path, key), message, Rule.MISPLACED_KEY)

    def _read_agent(self, value: object, path: DocumentPath) -> AgentConfig | None:
        value = self._placeholders.expand(value, path) if isinstance(value, str) else value
        if not isinstance(value, dict):
            return self._validator.validate(AgentConfig, {} if value is None else value, path)
        self._check_agent_keys(value, path)
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in _AGENT_KEYS if key in value}
        check_attachments(self._report, data.get("memories"), (*path, "memories"), self._declared, self._placeholders)
        return self._validator.validate(AgentConfig, data, path)

    def _check_agent_keys(self, value: Mapping[Any, Any], path: DocumentPath) -> None:
        if "memory" in value:
            self._report.error(
                (*path, "memory"),
                "an agent has no `memory` of its own any more: declare the store under the document's `memory` "
                "and name it in the agent's `memories`",
                Rule.MISPLACED_KEY,
            )
        self._warn_about_misspelt(value, path, _AGENT_KEYS, (*_DEVALL_AGENT_KEYS, "memory"))

    def _read_edge(self, value: object, path: DocumentPath) -> Edge | None:
        if not isinstance(value, dict):
            return self._validator.validate(Edge, value, path)
        self._warn_about_misspelt(value, path, _EDGE_KEYS)
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in _EDGE_KEYS if key in value}
        for key in ("from", "to"):
            if isinstance(data.get(key), str):
                self._check_id(data[key], (*path, key))
        return self._validator.validate(Edge, data, path)

    def _check_id(self, id_: str, path: DocumentPath) -> None:
        if id_ not in self._ids and not self._report.is_full:
            hint = did_you_mean(id_, self._ids)
            message = f"there is no node {quoted(id_)}{hint} Nodes: {choices(self._ids)}."
            self._report.error(path, message, Rule.UNKNOWN_NAME)


def read_variables(report: Report, part: Part | None) -> dict[str, Any]:
    """Return the values by name; problems are reported."""
    if part is None or part.value is None:
        return {}
    if not isinstance(part.value, dict):
        report.error(part.path, f"expected a mapping, found {found(part.value, secret=True)}")
        return {}
    for key in part.value:
        if not isinstance(key, str):
            report.error((*part.path, key), f"the name of a variable must be text, found {found(key)}")
    return {key: value for key, value in part.value.items() if isinstance(key, str)}


def unresolved_in(report: Report, placeholders: Placeholders) -> tuple[Unresolved, ...]:
    """Return the values that wait for a variable which nothing sets, and warn about each."""
    unresolved = []
    for path, names in placeholders.missing.items():
        if not report.has_error_at(path):
            report.warn(path, unset_message(names), Rule.UNSET_VARIABLE)
        line = report.document.line(path)
        unresolved.append(Unresolved(path=path_text(path), location=path, line=line, names=names))
    return tuple(unresolved)


MAX_NESTING: Final = 10
"""How deep subgraphs may nest, those in files included."""
MAX_FILES: Final = 200
"""How many files of subgraphs one workflow may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingContext:
    """Tools and surroundings of the graphs of one document."""

    report: Report
    placeholders: Placeholders
    validator: Validator
    store_types: StoreTypes
    environment: Environment
    variables: Mapping[str, Any]
    """The document's `vars`, over those of the documents around it."""
    folders: tuple[pathlib.Path, ...]
    """Where files of subgraphs are looked up: the document's folder, then those of the documents around it."""
    files: tuple[pathlib.Path, ...] = ()
    """The resolved files that include one another, the document's own last."""
    inherited: Mapping[str, StoreDeclaration | None] = field(default_factory=dict)
    """Stores of the graphs around by name; None where the declaration cannot be used."""
    depth: int = 0
    """Number of graphs around."""
    files_read: list[pathlib.Path] = field(default_factory=list)
    """Every file of a subgraph that was read for the workflow so far; shared by all of its documents."""


def read_graph(context: ReadingContext, parts: Mapping[str, Part], *, file: pathlib.Path | None = None) -> Subgraph:
    """Return what can be used of a graph; problems are reported."""
    report, placeholders = context.report, context.placeholders
    memory, stores = _read_stores(context, parts.get("memory"))
    subgraphs = _SubgraphReader(replace(context, inherited=stores, depth=context.depth + 1))
    graph = GraphReader(report, placeholders, context.validator, stores, subgraphs.read)
    listed = {name: elements_of(report, placeholders, parts.get(name)) for name in ("nodes", "edges")}
    nodes = graph.read_nodes(listed["nodes"])
    edges = graph.read_edges(listed["edges"])
    start = graph.read_start(elements_of(report, placeholders, parts.get("start"), single=str))
    warn_about_attachments(report, nodes, [store for store in stores.values() if store is not None])
    warn_about_nodes(report, listed["nodes"])
    warn_about_edges(report, listed["edges"])
    return Subgraph(file=file, memory=memory, start=start, nodes=nodes, edges=edges)


def _read_stores(
    context: ReadingContext, part: Part | None
) -> tuple[tuple[StoreDeclaration, ...], Mapping[str, StoreDeclaration | None]]:
    """Return a graph's own stores, and by name all that its agents may attach: its own win over inherited ones."""
    if part is not None:
        part = Part(path=part.path, value=context.placeholders.expand(part.value, part.path))
    elements = elements_of(context.report, context.placeholders, part, single=dict)
    reader = StoreReader(context.report, context.placeholders, context.validator, context.store_types)
    declared: dict[str, DocumentPath] = {}
    memory = reader.read(elements, declared)
    usable = {store.name: store for store in memory}
    return memory, {**context.inherited, **{name: usable.get(name) for name in declared}}


class _SubgraphReader:
    """Reads the subgraphs of one graph; a file that several nodes name is read once."""

    def __init__(self, context: ReadingContext) -> None:
        self._context = context
        self._by_file: dict[pathlib.Path, Subgraph | None] = {}

    def read(self, value: object, path: DocumentPath) -> Subgraph | None:
        """Return the graph that the `config` of a subgraph node holds or names; problems are reported."""
        if self._context.depth > MAX_NESTING:
            self._error(path, f"subgraphs nest deeper than {MAX_NESTING} levels")
            return None
        config = self._mapping(value, path, "with `type` and `config`")
        if config is None:
            return None
        kind = self._expanded(config.get("type"), (*path, "type"))
        if kind not in ("config", "file"):
            message = f"expected `config` (the graph stands here) or `file` (it has a file), found {found(kind)}"
            self._error((*path, "type"), message)
            return None
        wanted = "with the subgraph's `nodes`" if kind == "config" else "with the file's `path`"
        inner = self._mapping(config.get("config"), (*path, "config"), wanted)
        if inner is None:
            return None
        return self._inline(inner, (*path, "config")) if kind == "config" else self._named(inner, (*path, "config"))

    def _inline(self, graph: Mapping[Any, Any], path: DocumentPath) -> Subgraph:
        if "nodes" not in graph:
            self._error((*path, "nodes"), "this key is required")
        warn_about_graph(self._context.report, graph, path)
        return read_graph(self._context, parts_of_subgraph(self._context.report, graph, path))

    def _named(self, config: Mapping[Any, Any], path: DocumentPath) -> Subgraph | None:
        path = (*path, "path")
        name = self._expanded(config.get("path"), path)
        if not isinstance(name, str) or not name or "\0" in name:
            self._error(path, f"expected the path of a file, found {found(name)}")
            return None
        folders = dict.fromkeys(self._context.folders)
        file = next((one for folder in folders if (one := folder / pathlib.Path(name)).is_file()), None)
        if file is None:
            places = " or ".join(repr(str(folder)) for folder in folders)
            message = f"there is no file {quoted(name)} in {places}; a relative path starts at the workflow's folder"
            self._error(path, message, Rule.MISSING_FILE)
            return None
        resolved = file.resolve()
        if resolved in self._context.files:
            circle = [*self._context.files[self._context.files.index(resolved) :], resolved]
            names = " -> ".join(one.name for one in circle)
            self._error(path, f"the subgraph includes itself ({names}); name another file", Rule.CYCLE)
            return None
        if resolved not in self._by_file:
            self._by_file[resolved] = self._from_file(file, resolved, path)
        return self._by_file[resolved]

    def _from_file(self, file: pathlib.Path, resolved: pathlib.Path, path: DocumentPath) -> Subgraph | None:
        if len(self._context.files_read) >= MAX_FILES:
            self._error(path, f"the workflow's subgraphs read more than {MAX_FILES} files")
            return None
        self._context.files_read.append(resolved)
        try:
            document = compose(read_text(file, str(file)), origin=str(file))
        except ConfigError as error:
            self._context.report.include(error.findings)
            return None
        report = Report(document)
        parts = find_parts(report)
        context = self._context_of(report, parts, file, resolved)
        warn_about_graph(report, document.data.get("graph"), ("graph",))
        graph = read_graph(context, parts, file=file)
        unresolved_in(report, context.placeholders)
        self._context.report.include(report.findings)
        return graph

    def _context_of(
        self, report: Report, parts: Mapping[str, Part], file: pathlib.Path, resolved: pathlib.Path
    ) -> ReadingContext:
        variables = {**self._context.variables, **read_variables(report, parts.get("vars"))}
        placeholders = Placeholders(variables, self._context.environment, report.spoil)
        return replace(
            self._context,
            report=report,
            placeholders=placeholders,
            validator=Validator(report, placeholders),
            variables=variables,
            folders=(file.parent, *self._context.folders),
            files=(*self._context.files, resolved),
        )

    def _mapping(self, value: object, path: DocumentPath, wanted: str) -> Mapping[Any, Any] | None:
        expanded = self._expanded(value, path)
        if isinstance(expanded, dict):
            return expanded
        self._error(path, f"expected a mapping {wanted}, found {found(expanded)}")
        return None

    def _expanded(self, value: object, path: DocumentPath) -> object:
        return self._context.placeholders.expand(value, path) if isinstance(value, str) else value

    def _error(self, path: DocumentPath, message: str, rule: Rule = Rule.INVALID_VALUE) -> None:
        self._context.report.error(path, message, rule)
