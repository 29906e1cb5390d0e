"""A document to a `Workflow`: its parts are expanded, validated and held against the rules in one pass.

Everything wrong in it is reported together. A subgraph is read as its graph is, whose stores and variables it inherits.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import create_model

from devmem.config.agent import (
    CARRIED_OUT,
    NODE_TYPES,
    ONLY_IN_CONFIG,
    SETTINGS,
    AgentConfig,
    Attachment,
    LiteralConfig,
    PassthroughConfig,
    SubgraphConfig,
)
from devmem.config.base import ConfigModel, StoreTypes, all_keys, mentions, models_in
from devmem.config.compose import compose
from devmem.config.document import DocumentPath, Report, YamlDocument, read_text
from devmem.config.findings import Rule, choices, closest, did_you_mean, found, quoted
from devmem.config.placeholders import Environment, Placeholders, Unresolved, has_placeholder, unset_message
from devmem.config.rules import check_document, check_store
from devmem.config.store import StoreDeclaration
from devmem.config.validate import NEAR_MISS, Validator
from devmem.config.workflow import (
    ROOT_ONLY,
    Edge,
    NodeConfig,
    Subgraph,
    Workflow,
    WorkflowDocument,
)
from devmem.errors import CollectionError, ConfigError, Finding, Level, MissingExtraError, PluginError

_PARTS: Final = tuple(WorkflowDocument.model_fields)
_OF_SUBGRAPHS: Final = ("memory", "start", "nodes", "edges")
_FOREIGN: Final = {"memories": "memory", "stores": "memory", "variables": "vars", "agents": "nodes"}
"""Keys that others call our parts by."""
_NOT_CARRIED_OUT: Final = {
    "is_majority_voting": "majority voting is not carried out; the output is that of the last node",
    "end": "`end` is not read; the output is that of the last node that ran",
}
_OPTIONS: Final = ("memory_options", "conversation", "record_recalls", "transaction")
_FIELDS: Final[dict[str, Any]] = {
    name: (field.annotation, field) for name, field in WorkflowDocument.model_fields.items() if name in _OPTIONS
}
_Options = create_model("_Options", __base__=ConfigModel, **_FIELDS)
"""The parts that are about the whole workflow, by themselves: to build a validator for all parts takes 10 ms."""
_NODE_KEYS: Final = ("id", "type", "description")
_AGENT_KEYS: Final = (*all_keys([AgentConfig]), "thinking")
_ATTACHMENT_KEYS: Final = frozenset(all_keys([Attachment])).difference(_AGENT_KEYS)

_Stores: TypeAlias = Mapping[str, StoreDeclaration | None]
"""Stores that an agent may attach, by name; None where the declaration cannot be used."""


class Reader:
    """Reads one document, and those of its subgraphs."""

    def __init__(
        self,
        document: YamlDocument,
        types: StoreTypes,
        folder: pathlib.Path,
        environment: Environment,
        outer: Reader | None = None,
    ) -> None:
        """Find the parts.

        Args:
            document: what is read.
            types: the store types, and what plugins offer.
            folder: where relative paths start.
            environment: values of variables that no `vars` set.
            outer: the reader of the document that names this one as the file of a subgraph.
        """
        self.report = Report(document)
        self.folder = folder
        self._types, self._environment = types, environment
        self.folders: tuple[pathlib.Path, ...] = (folder, *(outer.folders if outer else ()))
        own = (pathlib.Path(document.origin).resolve(),) if document.origin else ()
        self.files: tuple[pathlib.Path, ...] = (*(outer.files if outer else ()), *own)
        self.graphs: list[tuple[Reader, Subgraph, _Stores]] = outer.graphs if outer else []
        """Every graph that was read, with the reader of its document, and the stores that its agents may attach."""
        self._parts = self._find_parts()
        self._vars = self._read_variables()
        self.variables: Mapping[str, Any] = {**(outer.variables if outer else {}), **self._vars}
        self._placeholders = Placeholders(self.variables, environment, self.report.error)
        self._validator = Validator(self.report, self._placeholders, types)

    # The document.

    def workflow(self) -> Workflow:
        """Return the workflow.

        Raises:
            ConfigError: something in it is wrong; carries every problem.
        """
        parts, report = self._parts, self.report
        plugins = self._read_plugins()
        blank = [name for name in _OPTIONS if name in parts and parts[name] is None and report.is_blank((name,))]
        for name in blank:
            report.warn((name,), f"`{name}:` has no value, so it is left out", Rule.NO_EFFECT)
        written = {name: value for name, value in self._picked(parts, (), _OPTIONS).items() if value is not None}
        options = self._validator.validate(_Options, written, ()) or _Options()
        graph = self._read_graph(parts, (), {})
        check_document(report, graph, dict(options))
        unresolved = self._unresolved()
        report.raise_errors()
        version = parts.get("version")
        # Every part was validated as it was read.
        return Workflow.model_construct(
            **dict(options),
            version="0.0.0" if version is None or isinstance(version, (dict, list)) else str(version),
            vars=self._vars,
            plugins=plugins,
            memory=graph.memory,
            start=graph.start,
            nodes=graph.nodes,
            edges=graph.edges,
            base_dir=self.folder,
            warnings=report.warnings,
            unresolved=unresolved,
        )

    def _find_parts(self) -> dict[str, Any]:
        """Return our parts by name, wherever they stand; those that are absent are left out."""
        report, root = self.report, self.report.document.data
        parts = {name: root[name] for name in _PARTS if name in root}
        self._check_keys((), root)
        graph = root.get("graph")
        if isinstance(graph, dict):
            self._check_keys(("graph",), graph)
            if "vars" in graph:
                message = "`vars` belongs at the root of the document, beside `graph`"
                report.error(("graph", "vars"), message, Rule.MISPLACED_KEY)
            inside = [name for name in _PARTS if name in graph and name not in ROOT_ONLY]
            for name in (name for name in inside if name in parts):
                message = (
                    f"`{name}` stands here and at the root, on line {report.place((name,)).line}; keep one of them"
                )
                report.error(("graph", name), message, Rule.DUPLICATE_NAME)
            report.in_graph = {name for name in inside if name not in parts}
            parts |= {name: graph[name] for name in report.in_graph}
        elif "graph" in root and not parts.keys() & {"memory", "nodes"}:
            report.error(("graph",), f"expected a mapping, found {found(graph)}")
        if "memory" not in parts and "nodes" not in parts and "graph" not in root:
            report.error((), "there is neither `memory` nor `nodes`; this is not a workflow", Rule.INVALID_FILE)
        return parts

    def _check_keys(self, path: DocumentPath, mapping: Mapping[Any, Any]) -> None:
        """Warn about keys of a document or a graph that are nearly those of a part, or that are not carried out."""
        for key in mapping:
            meant = _FOREIGN.get(key) or closest(key, _PARTS, cutoff=NEAR_MISS)
            if key not in _PARTS and meant and meant not in mapping:
                self.report.warn((*path, key), f"this key is not read; did you mean {meant!r}?", Rule.UNKNOWN_KEY)
            elif path and key in _NOT_CARRIED_OUT and mapping[key]:
                self.report.warn((*path, key), _NOT_CARRIED_OUT[key], Rule.NOT_SUPPORTED)

    def _read_variables(self) -> dict[str, Any]:
        values = self._parts.get("vars")
        if values is not None and not isinstance(values, dict):
            self.report.error(("vars",), f"expected a mapping, found {found(values, secret=True)}")
        if not isinstance(values, dict):
            return {}
        for key in (key for key in values if not isinstance(key, str)):
            self.report.error(("vars", key), f"the name of a variable must be text, found {found(key)}")
        return {key: value for key, value in values.items() if isinstance(key, str)}

    def _read_plugins(self) -> tuple[str, ...]:
        modules = []
        for path, module in self._names(self._parts, (), "plugins", "the name of a Python module, or a file"):
            is_file = module.endswith(".py")
            try:
                self._types.load_plugin(str(self.folder / module) if is_file else module)
            except PluginError as error:
                self.report.error(path, str(error))
            modules.append(module)
        return tuple(modules)

    def _unresolved(self) -> tuple[Unresolved, ...]:
        """Return the values that wait for a variable which nothing sets, and warn about each."""
        unresolved = []
        for path, names in self._placeholders.missing.items():
            if not self.report.has_error_at(path):
                self.report.warn(path, unset_message(names), Rule.UNSET_VARIABLE)
            place = self.report.place(path)
            unresolved.append(Unresolved(path=place.path, location=place.location, line=place.line or 1, names=names))
        return tuple(unresolved)

    # A graph.

    def _read_graph(
        self, parts: Mapping[str, Any], path: DocumentPath, inherited: _Stores, *, file: pathlib.Path | None = None
    ) -> Subgraph:
        """Return what can be used of the graph at a path; its own stores win over those that it inherits."""
        memory, declared = self._read_stores(parts, (*path, "memory"))
        usable = {store.name: store for store in memory}
        stores: _Stores = {**inherited, **{name: usable.get(name) for name in declared}}
        ids: dict[str, DocumentPath] = {}
        read = [self._read_node(value, where, ids, stores) for where, value in self._elements(parts, path, "nodes")]
        edges = [self._read_edge(value, where, ids) for where, value in self._elements(parts, path, "edges")]
        start = []
        for where, name in self._names(parts, path, "start", "the id of a node"):
            self._check_id(name, where, ids)
            start.append(name)
        graph = Subgraph(
            file=file,
            memory=memory,
            start=tuple(start),
            nodes=tuple(node for node in read if node is not None),
            edges=tuple(edge for edge in edges if edge is not None),
        )
        self.graphs.append((self, graph, stores))
        return graph

    def _elements(
        self, parts: Mapping[str, Any], path: DocumentPath, name: str, *, single: type | None = None
    ) -> Sequence[tuple[DocumentPath, Any]]:
        """Return the elements of a list with their paths; one value of the type `single` may stand for a list of it."""
        where = (*path, name)
        value = self._opened(parts.get(name), where)
        if single is not None and isinstance(value, single):
            return [(where, value)]
        if isinstance(value, list):
            return [((*where, index), element) for index, element in enumerate(value)]
        if value is not None:
            self.report.error(where, f"expected a list, found {found(value)}")
        return []

    def _names(
        self, parts: Mapping[str, Any], path: DocumentPath, name: str, expected: str
    ) -> Sequence[tuple[DocumentPath, str]]:
        """Return the texts of a list, or of one text, with their paths."""
        names = []
        for where, value in self._elements(parts, path, name, single=str):
            text = self._opened(value, where)
            if isinstance(text, str):
                names.append((where, text))
            else:
                self.report.error(where, f"expected {expected}, found {found(text)}")
        return names

    def _opened(self, value: object, path: DocumentPath) -> Any:  # noqa: ANN401 - as YAML has it
        """Return a value, or that of the placeholder which it is; inside of it, only what is read is expanded."""
        return self._placeholders.expand(value, path) if isinstance(value, str) else value

    def _picked(self, value: Mapping[Any, Any], path: DocumentPath, keys: Iterable[str]) -> dict[str, Any]:
        """Return the entries of a mapping that are read, expanded."""
        return {key: self._placeholders.expand(value[key], (*path, key)) for key in keys if key in value}

    def _note_name(self, known: dict[str, DocumentPath], name: object, path: DocumentPath, what: str) -> None:
        """Record where a name is declared; a second declaration is an error."""
        if isinstance(name, str) and name in known:
            line = self.report.place(known[name]).line
            message = f"the {what} {quoted(name)} is taken already, on line {line}; names must be unique"
            self.report.error(path, message, Rule.DUPLICATE_NAME)
        elif isinstance(name, str):
            known[name] = path

    def _check_id(self, id_: str, path: DocumentPath, ids: Collection[str]) -> None:
        if id_ not in ids:
            message = f"there is no node {quoted(id_)}{did_you_mean(id_, ids)} Nodes: {choices(ids)}."
            self.report.error(path, message, Rule.UNKNOWN_NAME)

    def _read_stores(
        self, parts: Mapping[str, Any], path: DocumentPath
    ) -> tuple[tuple[StoreDeclaration, ...], Collection[str]]:
        """Return the stores that can be used, and the names of all that are declared."""
        declared: dict[str, DocumentPath] = {}
        stores = []
        whole = self._picked(parts, path[:-1], ["memory"])
        for where, value in self._elements(whole, path[:-1], "memory", single=dict):
            data = value
            if isinstance(value, dict):
                self._note_name(declared, value.get("name"), (*where, "name"), "store name")
                data = {**value, "config": {} if value.get("config") is None else value["config"]}
            store = self._validator.validate(StoreDeclaration, data, where)
            if store is not None:
                self._check_empty(store.config, (*where, "config"))
                self._check_location(store.config, (*where, "config", "memory_path"))
                stores.append(store)
        return tuple(stores), declared

    def _check_empty(self, config: ConfigModel, path: DocumentPath) -> None:
        """Report keys without a value: what they were to turn on is off, or kept for one process only."""
        report, written = self.report, self.report.written(path)
        for key, info in type(config).model_fields.items():
            where = (*path, key)
            is_blank = report.is_blank(where)
            if key in ("memory_path", "index_path") and getattr(config, key) is None and key in config.model_fields_set:
                if is_blank or (isinstance(written, dict) and isinstance(written.get(key), str)):
                    message = "this is empty, so the items are kept for this process only; name a file, or write null"
                    report.warn(where, message, Rule.NO_EFFECT)
            elif is_blank and key == "encryption":
                # It would be missed too late: once plain files are written, they are.
                message = "`encryption:` has no value; write its `key`, or null for plain files"
                report.error(where, message, Rule.NO_EFFECT)
            elif is_blank and mentions(info.annotation, type(None)) and any(models_in(info.annotation)):
                message = f"`{key}:` has no value, so it is left out"
                hint = "write its settings, {} for the defaults, or null for none"
                report.warn(where, f"{message}; {hint}", Rule.NO_EFFECT)

    def _check_location(self, config: ConfigModel, path: DocumentPath) -> None:
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
            self._types.check_location(location, states=states)
        except MissingExtraError as error:
            self.report.warn(path, str(error), Rule.MISSING_EXTRA)
        except CollectionError as error:
            self.report.error(path, str(error))

    def _read_node(
        self, value: object, path: DocumentPath, ids: dict[str, DocumentPath], stores: _Stores
    ) -> NodeConfig | None:
        value, inside = self._opened(value, path), (*path, "config")
        if not isinstance(value, dict):
            return self._validator.validate(NodeConfig, value, path)
        data = self._picked(value, path, _NODE_KEYS)
        self._note_name(ids, data.get("id"), (*path, "id"), "node id")
        kind, written = data.get("type"), value.get("config")
        if kind in ("agent", "subgraph", *SETTINGS):
            written = self._opened(written, inside)
        self._check_node(value, kind, path)
        settings: LiteralConfig | PassthroughConfig | Subgraph | None = None
        if kind == "agent":
            data["config"] = self._read_agent(written, inside, stores)
        elif kind == "subgraph":
            settings = self._read_subgraph(written, inside, stores)
        elif isinstance(kind, str) and kind in SETTINGS:
            self._validator.look_over(SETTINGS[kind], written, inside)
            expanded = self._placeholders.expand({} if written is None else written, inside)
            settings = self._validator.validate(SETTINGS[kind], expanded, inside)
        node = self._validator.validate(NodeConfig, data, path)
        if node is not None:
            node.set_settings(settings)
        return node

    def _check_node(self, node: Mapping[Any, Any], kind: object, path: DocumentPath) -> None:
        """Report keys that stand in the wrong place, and types that devmem does not carry out."""
        report, is_agent = self.report, kind == "agent"
        self._validator.look_over(NodeConfig, {key: node[key] for key in node if is_agent or key != "config"}, path)
        config = node.get("config")
        for key in (key for key in node if is_agent and not (isinstance(config, dict) and key in config)):
            if key in ONLY_IN_CONFIG:
                message = f"`{key}` belongs inside the agent's `config`, where it is read"
                report.error((*path, key), message, Rule.MISPLACED_KEY)
            elif key in _AGENT_KEYS and key not in _NODE_KEYS and key not in NodeConfig.foreign:
                message = f"this key is not read here; `{key}` belongs inside `config`"
                report.warn((*path, key), message, Rule.MISPLACED_KEY)
        if not isinstance(kind, str) or not kind or kind in CARRIED_OUT:
            return
        if kind not in NODE_TYPES:
            meant = closest(kind, NODE_TYPES)
            hint = f"; did you mean {meant!r}?" if meant else "; its input is passed on"
            report.warn((*path, "type"), f"devmem knows no node type {quoted(kind)}{hint}", Rule.UNKNOWN_NAME)
        elif kind != "human":
            # Nodes that ask a person are left to the runner: the first of them gets what the person said, the input.
            message = f"a node of type {kind!r} is not carried out; its input is passed on"
            report.warn((*path, "type"), message, Rule.NOT_SUPPORTED)

    def _read_agent(self, value: object, path: DocumentPath, stores: _Stores) -> AgentConfig | None:
        if not isinstance(value, dict):
            return self._validator.validate(AgentConfig, {} if value is None else value, path)
        if "memory" in value:
            message = (
                "an agent has no `memory` of its own: declare the store under the document's `memory` and name it in "
                "the agent's `memories`"
            )
            self.report.error((*path, "memory"), message, Rule.MISPLACED_KEY)
        for key in (key for key in value if key in _ATTACHMENT_KEYS):
            message = f"this key is not read here; `{key}` belongs inside an entry of `memories`"
            self.report.warn((*path, key), message, Rule.MISPLACED_KEY)
        thinking = value.get("thinking")
        if isinstance(thinking, dict) and (way := thinking.get("type")) != "reflection":
            message = f"thinking of type {str(way)[:40]!r} is not carried out"
            self.report.warn((*path, "thinking"), message, Rule.NOT_SUPPORTED)
        data = self._picked(value, path, _AGENT_KEYS)
        entries = data.get("memories")
        seen: dict[str, DocumentPath] = {}
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            name = entry.get("name") if isinstance(entry, dict) else entry
            place = (*path, "memories", index)
            where = place if isinstance(entry, str) else (*place, "name")
            if not isinstance(name, str) or not name:
                continue
            if where in self._placeholders.missing:
                self.report.error(where, unset_message(self._placeholders.missing[where]), Rule.UNSET_VARIABLE)
            elif name in seen:
                line = self.report.place(seen[name]).line
                message = f"the store {quoted(name)} is attached to this node already, on line {line}"
                self.report.error(where, message, Rule.DUPLICATE_NAME)
            else:
                check_store(self.report, where, name, stores)
            seen.setdefault(name, where)
        return self._validator.validate(AgentConfig, data, path)

    def _read_edge(self, value: object, path: DocumentPath, ids: Collection[str]) -> Edge | None:
        if not isinstance(value, dict):
            return self._validator.validate(Edge, value, path)
        # Without a key of a condition that is misspelt, its edge would be followed unasked.
        self._validator.look_over(Edge, value, path)
        data = self._picked(value, path, all_keys([Edge]))
        for key in ("from", "to"):
            if isinstance(data.get(key), str):
                self._check_id(data[key], (*path, key), ids)
        return self._validator.validate(Edge, data, path)

    # Subgraphs.

    def _read_subgraph(self, value: object, path: DocumentPath, stores: _Stores) -> Subgraph | None:
        """Return the graph that the `config` of a subgraph node holds or names."""
        inside = (*path, "config")
        data = value
        if isinstance(value, dict):
            data = {key: self._opened(value[key], (*path, key)) for key in ("type", "config") if key in value}
        config = self._validator.validate(SubgraphConfig, data, path)
        if config is None:
            return None
        if config.type == "file":
            return self._read_file(config.config.get("path"), (*inside, "path"), stores)
        graph = config.config
        self._check_keys(inside, graph)
        if "nodes" not in graph:
            self.report.error((*inside, "nodes"), "this key is required")
        if "vars" in graph:
            message = "this key is not read; `vars` belongs at the root of the document"
            self.report.warn((*inside, "vars"), message, Rule.MISPLACED_KEY)
        return self._read_graph({name: graph[name] for name in _OF_SUBGRAPHS if name in graph}, inside, stores)

    def _read_file(self, value: object, path: DocumentPath, stores: _Stores) -> Subgraph | None:
        name = self._opened(value, path)
        if not isinstance(name, str) or not name or "\0" in name:
            self.report.error(path, f"expected the path of a file, found {found(name)}")
            return None
        folders = dict.fromkeys(self.folders)
        file = next((one for folder in folders if (one := folder / pathlib.Path(name)).is_file()), None)
        if file is None:
            places = " or ".join(repr(str(folder)) for folder in folders)
            message = f"there is no file {quoted(name)} in {places}; a relative path starts at the workflow's folder"
            self.report.error(path, message, Rule.MISSING_FILE)
            return None
        if (resolved := file.resolve()) in self.files:
            circle = [*self.files[self.files.index(resolved) :], resolved]
            names = " -> ".join(one.name for one in circle)
            self.report.error(path, f"the subgraph includes itself ({names}); name another file", Rule.CYCLE)
            return None
        try:
            document = compose(read_text(file, str(file)), origin=str(file))
        except ConfigError as error:
            self.report.include(error.findings)
            return None
        reader = Reader(document, self._types, file.parent, self._environment, self)
        graph = reader._read_graph(reader._parts, (), stores, file=file)
        reader._unresolved()
        self.report.include(reader.report.findings)
        return graph


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCheck:
    """The outcome of checking one workflow."""

    file: str
    """The file as the caller named it."""
    workflow: Workflow | None
    """The workflow; None when it cannot be used."""
    findings: tuple[Finding, ...]
    """Errors, warnings and notes, by line."""

    def count(self, level: Level) -> int:
        """Return the number of findings of a level."""
        return sum(finding.level is level for finding in self.findings)


def check_workflow(
    path: str | os.PathLike[str], store_types: StoreTypes, *, environ: Mapping[str, str] | None = None
) -> WorkflowCheck:
    """Check a workflow file, ours or DevAll's, more closely than reading it does.

    `environ` stands in for the process environment.
    """
    from devmem.config.review import review

    file = pathlib.Path(path)
    try:
        reader = _reader(read_text(file, str(path)), store_types, str(path), file.parent, environ)
        workflow = reader.workflow().model_copy(update={"file": file})
    except ConfigError as error:
        return WorkflowCheck(file=str(path), workflow=None, findings=error.findings)
    review(reader, workflow)
    return WorkflowCheck(file=str(path), workflow=workflow, findings=reader.report.findings)


def load_workflow(
    path: str | os.PathLike[str], store_types: StoreTypes, *, environ: Mapping[str, str] | None = None
) -> Workflow:
    """Read and check a workflow file.

    `environ` stands in for the process environment.

    Raises:
        ConfigError: the file cannot be read or used; carries every problem, each with its line and path.
    """
    file = pathlib.Path(path)
    text = read_text(file, str(path))
    workflow = parse_workflow(text, store_types, origin=str(path), base_dir=file.parent, environ=environ)
    return workflow.model_copy(update={"file": file})


def parse_workflow(
    text: str,
    store_types: StoreTypes,
    *,
    origin: str = "",
    base_dir: pathlib.Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Workflow:
    """Read and check a workflow given as text.

    `origin` names the text in messages; `base_dir` is where relative paths start, else the working directory.

    Raises:
        ConfigError: the text cannot be used; carries every problem, each with its line and path.
    """
    return _reader(text, store_types, origin, base_dir, environ).workflow()


def _reader(
    text: str, types: StoreTypes, origin: str, folder: pathlib.Path | None, environ: Mapping[str, str] | None
) -> Reader:
    document = compose(text, origin=origin)
    return Reader(document, types, folder or pathlib.Path(), Environment(environ, folder=folder))
