"""A document's parts to models: its graph with stores, nodes and edges, and the subgraphs in it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from devmem.config.agent import SETTINGS, AgentConfig, Attachment, LiteralConfig, PassthroughConfig
from devmem.config.base import ConfigModel, all_keys, mentions, models_in
from devmem.config.compose import compose
from devmem.config.document import DocumentPath, Report, path_text, read_text
from devmem.config.findings import Rule, choices, closest, did_you_mean, found, quoted
from devmem.config.placeholders import Environment, Placeholders, Unresolved, has_placeholder
from devmem.config.rules import AGENT_KEYS, EDGE_KEYS, NEAR_MISS, NODE_KEYS, inspect, inspect_graph
from devmem.config.store import EmbeddingConfig, GuardConfig, RetrievalConfig, StoreDeclaration, StoreTypes
from devmem.config.subjects import Attachments, Graph, Inspection, Written
from devmem.config.validate import Validator
from devmem.config.workflow import ROOT_ONLY, Edge, NodeConfig, Subgraph, WorkflowDocument, unset_message
from devmem.errors import CollectionError, ConfigError, MissingExtraError, PluginError

_PARTS: Final = tuple(WorkflowDocument.model_fields)
_BLOCKS: Final = {
    name: frozenset(all_keys(list(models_in(WorkflowDocument.model_fields[name].annotation))))
    for name in ("memory_options", "conversation", "record_recalls")
}
"""Parts that are one mapping, with its keys."""
_ATTACHMENT_KEYS: Final = frozenset(all_keys([Attachment])).difference(AGENT_KEYS)
_PLACES: Final = ("memory_path", "index_path")
_MUST_NOT_BE_BLANK: Final = "encryption"
"""A block that is missed too late: once plain files are written, they are."""
_OF_SUBGRAPHS: Final = ("memory", "start", "nodes", "edges")
_FOREIGN: Final = {"memories": "memory", "stores": "memory", "variables": "vars", "agents": "nodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of our parts of the document, as it was written."""

    path: DocumentPath
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


def parts_of_subgraph(report: Report, graph: Mapping[Any, Any], path: DocumentPath) -> Mapping[str, Part]:
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


def _warn_near_misses(report: Report, path: DocumentPath, mapping: Mapping[Any, Any]) -> None:
    for key in mapping:
        if not isinstance(key, str) or key in _PARTS or key == "graph":
            continue
        meant = _FOREIGN.get(key) or closest(key, _PARTS, cutoff=NEAR_MISS)
        if meant and meant not in mapping:
            report.warn((*path, key), f"this key is not read; did you mean {meant!r}?", Rule.UNKNOWN_KEY)
        elif (block := _blank_block_of(key, report, path, mapping)) is not None:
            message = f"this key is not read here; indent it, so that it belongs to `{block}:`, which has no value"
            report.warn((*path, key), message, Rule.MISPLACED_KEY)


def _blank_block_of(key: str, report: Report, path: DocumentPath, mapping: Mapping[Any, Any]) -> str | None:
    """Return the part without a value that has such a key; None where there is none."""
    meant = (name for name, keys in _BLOCKS.items() if key in keys and name in mapping)
    return next((name for name in meant if report.document.is_blank((*path, name))), None)


Elements: TypeAlias = Sequence[tuple[DocumentPath, Any]]
"""The elements of a list, each with its path."""


def elements_of(
    report: Report, placeholders: Placeholders, part: Part | None, *, single: type | None = None
) -> Elements:
    """Return the elements of a list with their paths; one value of the type `single` may stand for a list of it."""
    if part is None or part.value is None:
        return []
    value = placeholders.expand(part.value, part.path) if isinstance(part.value, str) else part.value
    if single is not None and isinstance(value, single):
        return [(part.path, value)]
    if isinstance(value, list):
        return [((*part.path, index), element) for index, element in enumerate(value)]
    report.error(part.path, f"expected a list, found {found(value)}")
    return []


def note_name(report: Report, known: dict[str, DocumentPath], name: object, path: DocumentPath, what: str) -> None:
    """Record where a name is declared; a second declaration is an error."""
    if not isinstance(name, str):
        return
    if name in known:
        line = report.document.line(known[name])
        message = f"the {what} {quoted(name)} is taken already, on line {line}; names must be unique"
        report.error(path, message, Rule.DUPLICATE_NAME)
    else:
        known[name] = path


_OTHERS = "Others need their package installed, or their module under `plugins`."


class StoreReader:
    """Reads the stores that one document declares."""

    def __init__(
        self, report: Report, placeholders: Placeholders, validator: Validator, store_types: StoreTypes
    ) -> None:
        self._report, self._placeholders, self._validator = report, placeholders, validator
        self._store_types = store_types

    def read(self, elements: Elements, declared: dict[str, DocumentPath]) -> tuple[StoreDeclaration, ...]:
        """Return the stores that can be used; every name goes into `declared`, problems are reported.

        The elements' placeholders are expanded already.
        """
        stores = (self._read_store(value, path, declared) for path, value in elements)
        return tuple(store for store in stores if store is not None)

    def _read_store(
        self, value: object, path: DocumentPath, declared: dict[str, DocumentPath]
    ) -> StoreDeclaration | None:
        if not isinstance(value, dict):
            self._report.error(path, f"expected a mapping with `name`, `type` and `config`, found {found(value)}")
            return None
        note_name(self._report, declared, value.get("name"), (*path, "name"), "store name")
        model = self._config_model(value, path)
        settings = {} if value.get("config") is None else value["config"]
        elsewhere = self._types_with
        config = self._validator.validate(model, settings, (*path, "config"), elsewhere=elsewhere) if model else None
        if model is not None and isinstance(settings, Mapping):
            self._check_plugins(model, settings, (*path, "config"))
        if config is not None:
            self._check_empty(config, (*path, "config"))
            self._check_place(config, (*path, "config", "memory_path"))
        header = {**value, "config": config if config is not None else ConfigModel()}
        store = self._validator.validate(StoreDeclaration, header, path)
        return store if config is not None else None

    def _config_model(self, value: Mapping[Any, Any], path: DocumentPath) -> type[ConfigModel] | None:
        name, where = value.get("type"), (*path, "type")
        if not isinstance(name, str) or not name:
            return None  # StoreDeclaration says what is wrong with it
        if where in self._placeholders.missing:
            self._report.error(where, unset_message(self._placeholders.missing[where]), Rule.UNSET_VARIABLE)
            return None
        known = self._store_types.names()
        if name not in known:
            hint = f"unknown store type {quoted(name)}{did_you_mean(name, known)} Possible types: {choices(known)}."
            self._report.error(where, f"{hint} {_OTHERS}", Rule.UNKNOWN_NAME)
            return None
        try:
            return self._store_types.config_model(name)
        except PluginError as error:
            self._report.error(where, str(error))
            return None

    def _check_empty(self, config: ConfigModel, path: DocumentPath) -> None:
        """Report keys without a value: what they were to turn on is off, or kept for one process only."""
        document = self._report.document
        written = document.nearest(path)
        texts = {key for key, value in written.items() if isinstance(value, str)} if isinstance(written, dict) else ()
        for key, info in type(config).model_fields.items():
            where = (*path, key)
            if key in _PLACES and getattr(config, key) is None and key in config.model_fields_set:
                if document.is_blank(where) or key in texts:
                    message = "this is empty, so the items are kept for this process only; name a file, or write null"
                    self._report.warn(where, message, Rule.NO_EFFECT)
            elif document.is_blank(where) and mentions(info.annotation, type(None)) and any(models_in(info.annotation)):
                message = f"`{key}:` has no value, so it is left out"
                if key == _MUST_NOT_BE_BLANK:
                    self._report.error(where, f"{message}; write its `key`, or null for plain files")
                else:
                    hint = "write its settings, {} for the defaults, or null for none"
                    self._report.warn(where, f"{message}; {hint}", Rule.NO_EFFECT)

    def _check_place(self, config: ConfigModel, path: DocumentPath) -> None:
        """Refuse a URL that is misspelled, that nothing opens, or where the store cannot keep all that it has to."""
        location = getattr(config, "memory_path", None)
        # Nearly every path has neither, and needs no opener.
        if not isinstance(location, str) or not (":" in location or "=" in location):
            return
        if path in self._placeholders.missing or has_placeholder(location):
            return
        # Extracted facts have a queue beside the items.
        states = getattr(config, "keeps_states", False) or getattr(config, "facts", None) is not None
        try:
            self._store_types.check_location(location, states=states)
        except MissingExtraError as error:
            self._report.warn(path, str(error), Rule.MISSING_EXTRA)
        except CollectionError as error:
            self._report.error(path, str(error))

    def _types_with(self, key: object) -> str:
        """Return a remark that stores of other types have a key; empty where none has."""
        found: list[str] = []
        for name in self._store_types.names():
            try:
                model = self._store_types.config_model(name)
            except PluginError:
                # A type that cannot be loaded offers nothing; the store that names it reports why.
                continue
            if key in all_keys([model]):
                found.append(repr(name))
        return f"; only stores of the type {' or '.join(found)} have it." if found else ""

    def _check_plugins(self, model: type[ConfigModel], settings: Mapping[Any, Any], path: DocumentPath) -> None:
        """Refuse rerankers and embedding providers that nobody offers."""
        for key, info in model.model_fields.items():
            if mentions(info.annotation, EmbeddingConfig):
                known = self._store_types.embedding_providers()
                keys = (key,) if isinstance(settings.get(key), str) else (key, "provider")
                self._check_name("embedding provider", settings, keys, known, path)
            elif mentions(info.annotation, RetrievalConfig):
                known = self._store_types.embedding_providers()
                self._check_name("embedding provider", settings, (key, "tokens", "provider"), known, path)
                self._check_name("reranker", settings, (key, "reranker", "type"), self._store_types.rerankers(), path)
            elif mentions(info.annotation, GuardConfig):
                self._check_guard(settings.get(key), (*path, key))

    def _check_guard(self, guard: object, path: DocumentPath) -> None:
        checks = guard.get("checks") if isinstance(guard, Mapping) else None
        for at, check in enumerate(checks if isinstance(checks, list) else ()):
            if isinstance(check, Mapping):
                known = self._store_types.guard_checks()
                self._check_name("check of a guard", check, ("type",), known, (*path, "checks", at))

    def _check_name(
        self, kind: str, settings: Mapping[Any, Any], keys: Sequence[str], known: Sequence[str], path: DocumentPath
    ) -> None:
        name: object = settings
        for key in keys:
            name = name.get(key) if isinstance(name, Mapping) else None
        if not isinstance(name, str):
            return  # it is left out, or the validator says what is wrong with it
        where = (*path, *keys)
        if where in self._placeholders.missing:
            self._report.error(where, unset_message(self._placeholders.missing[where]), Rule.UNSET_VARIABLE)
        elif name not in known:
            written = self._report.document.nearest(where)
            if isinstance(written, str) and has_placeholder(written):
                # The value may be a secret that stands in the wrong place.
                shown = f"unknown {kind} in {quoted(written)}."
            else:
                shown = f"unknown {kind} {quoted(name)}{did_you_mean(name, known)}"
            hint = f"{shown} Possible: {choices(known)}."
            self._report.error(where, f"{hint} {_OTHERS}", Rule.UNKNOWN_NAME)


class _GraphReader:
    """Reads the graph of one document."""

    def __init__(
        self,
        context: ReadingContext,
        declared: Collection[str],
        read_subgraph: Callable[[object, DocumentPath], Subgraph | None],
    ) -> None:
        """Make the reader.

        Args:
            context: the document.
            declared: names of the stores that agents may attach.
            read_subgraph: reads the `config` of a subgraph node, which stands at a path.
        """
        self._report, self._placeholders = context.report, context.placeholders
        self._validator, self._inspection = context.validator, context.inspection
        self._declared, self._read_subgraph = declared, read_subgraph
        self._ids: dict[str, DocumentPath] = {}

    def read_nodes(self, elements: Elements) -> tuple[NodeConfig, ...]:
        """Return the nodes that can be used; problems are reported."""
        nodes = (self._read_node(value, path) for path, value in elements)
        return tuple(node for node in nodes if node is not None)

    def read_edges(self, elements: Elements) -> Sequence[tuple[DocumentPath, Edge]]:
        """Return the edges that can be used with their places, after the nodes; problems are reported."""
        edges = [(path, self._read_edge(value, path)) for path, value in elements]
        return [(path, edge) for path, edge in edges if edge is not None]

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
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in NODE_KEYS if key in value}
        note_name(self._report, self._ids, data.get("id"), (*path, "id"), "node id")
        kind = data.get("type")
        inspect(Written(path, self._inspection, "node", value, kind))
        settings: LiteralConfig | PassthroughConfig | Subgraph | None = None
        if kind == "agent":
            data["config"] = self._read_agent(value.get("config"), (*path, "config"))
        elif kind == "subgraph":
            settings = self._read_subgraph(value.get("config"), (*path, "config"))
        elif isinstance(kind, str) and kind in SETTINGS:
            written = value.get("config")
            if isinstance(written, dict):
                inspect(Written((*path, "config"), self._inspection, "settings", written, kind))
            settings = self._read_settings(SETTINGS[kind], written, (*path, "config"))
        node = self._validator.validate(NodeConfig, data, path)
        if node is not None:
            node.set_settings(settings)
        return node

    def _read_settings(
        self, model: type[LiteralConfig | PassthroughConfig], value: object, path: DocumentPath
    ) -> LiteralConfig | PassthroughConfig | None:
        expanded = self._placeholders.expand({} if value is None else value, path)
        return self._validator.validate(model, expanded, path)

    def _read_agent(self, value: object, path: DocumentPath) -> AgentConfig | None:
        value = self._placeholders.expand(value, path) if isinstance(value, str) else value
        if not isinstance(value, dict):
            return self._validator.validate(AgentConfig, {} if value is None else value, path)
        inspect(Written(path, self._inspection, "agent", value))
        for key in (key for key in value if key in _ATTACHMENT_KEYS):
            message = f"this key is not read here; `{key}` belongs inside an entry of `memories`"
            self._report.warn((*path, key), message, Rule.MISPLACED_KEY)
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in AGENT_KEYS if key in value}
        place, missing = (*path, "memories"), self._placeholders.missing
        inspect(Attachments(place, self._inspection, data.get("memories"), self._declared, missing))
        return self._validator.validate(AgentConfig, data, path)

    def _read_edge(self, value: object, path: DocumentPath) -> Edge | None:
        if not isinstance(value, dict):
            return self._validator.validate(Edge, value, path)
        inspect(Written(path, self._inspection, "edge", value))
        self._inspect_condition(value.get("condition"), (*path, "condition"))
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in EDGE_KEYS if key in value}
        for key in ("from", "to"):
            if isinstance(data.get(key), str):
                self._check_id(data[key], (*path, key))
        return self._validator.validate(Edge, data, path)

    def _inspect_condition(self, condition: object, path: DocumentPath) -> None:
        """Check the keys of a condition: without one that is misspelt, its edge would be followed unasked."""
        if isinstance(condition, Mapping):
            inspect(Written(path, self._inspection, "condition", condition))
            if isinstance(settings := condition.get("config"), Mapping):
                inspect(Written((*path, "config"), self._inspection, "condition_config", settings))

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
    is_inline: bool = False
    """Whether the graph stands in a node of the document."""
    files_read: list[pathlib.Path] = field(default_factory=list)
    """Every file of a subgraph that was read for the workflow so far; shared by all of its documents."""

    @property
    def inspection(self) -> Inspection:
        """The document, for the rules."""
        return Inspection(report=self.report, base_dir=self.folders[0])


def read_graph(context: ReadingContext, parts: Mapping[str, Part], *, file: pathlib.Path | None = None) -> Subgraph:
    """Return what can be used of a graph; problems are reported."""
    report, placeholders = context.report, context.placeholders
    if isinstance(outer := report.document.data.get("graph"), dict) and not context.is_inline:
        inspect(Written(("graph",), context.inspection, "graph", outer))
    memory, stores = _read_stores(context, parts.get("memory"))
    subgraphs = _SubgraphReader(replace(context, inherited=stores, depth=context.depth + 1))
    graph = _GraphReader(context, stores, subgraphs.read)
    listed = {name: elements_of(report, placeholders, parts.get(name)) for name in ("nodes", "edges")}
    nodes = graph.read_nodes(listed["nodes"])
    edges = graph.read_edges(listed["edges"])
    start = graph.read_start(elements_of(report, placeholders, parts.get("start"), single=str))
    usable = {name: store for name, store in stores.items() if store is not None}
    inspect_graph(Graph((), context.inspection, nodes, memory, edges), usable)
    return Subgraph(file=file, memory=memory, start=start, nodes=nodes, edges=tuple(edge for _, edge in edges))


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
        inspect(Written(path, self._context.inspection, "graph", graph))
        return read_graph(replace(self._context, is_inline=True), parts_of_subgraph(self._context.report, graph, path))

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
            is_inline=False,
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
