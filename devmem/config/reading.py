"""A document to a `Workflow`: its parts are expanded, validated and held against the rules in one pass.

Everything wrong in it is reported together. A subgraph is read as its graph is, whose stores and variables it inherits.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from devmem.config.agent import (
    CARRIED_OUT,
    NODE_TYPES,
    ONLY_IN_CONFIG,
    SETTINGS,
    AgentConfig,
    Attachment,
    LiteralConfig,
    PassthroughConfig,
)
from devmem.config.base import ConfigModel, MemoryOptions, StoreTypes, all_keys, mentions, models_in
from devmem.config.compose import compose
from devmem.config.document import DocumentPath, Report, YamlDocument, path_text, read_text
from devmem.config.findings import Rule, choices, closest, did_you_mean, found, quoted
from devmem.config.placeholders import Environment, Placeholders, Unresolved, has_placeholder
from devmem.config.rules import NamedPart, check_attachments, check_document, check_graph
from devmem.config.store import StoreDeclaration
from devmem.config.validate import NEAR_MISS, Validator
from devmem.config.workflow import (
    ROOT_ONLY,
    ConversationRecording,
    Edge,
    NodeConfig,
    RecallRecording,
    Subgraph,
    Workflow,
    WorkflowDocument,
    unset_message,
)
from devmem.errors import CollectionError, ConfigError, Finding, Level, MissingExtraError, PluginError

_PARTS: Final = tuple(WorkflowDocument.model_fields)
_BLOCKS: Final = {
    name: frozenset(all_keys(list(models_in(WorkflowDocument.model_fields[name].annotation))))
    for name in ("memory_options", "conversation", "record_recalls")
}
"""Parts that are one mapping, with its keys."""
_OF_SUBGRAPHS: Final = ("memory", "start", "nodes", "edges")
_FOREIGN: Final = {"memories": "memory", "stores": "memory", "variables": "vars", "agents": "nodes"}
"""Keys that others call our parts by."""
_NOT_CARRIED_OUT: Final = {
    "is_majority_voting": "majority voting is not carried out; the output is that of the last node",
    "end": "`end` is not read; the output is that of the last node that ran",
}
_NODE_KEYS: Final = ("id", "type", "description")
_AGENT_KEYS: Final = (*all_keys([AgentConfig]), "thinking")
_ATTACHMENT_KEYS: Final = frozenset(all_keys([Attachment])).difference(_AGENT_KEYS)

Block = TypeVar("Block", bound=ConfigModel)
_Parts: TypeAlias = Mapping[str, NamedPart]
_Stores: TypeAlias = Mapping[str, StoreDeclaration | None]
"""Stores that an agent may attach, by name; None where the declaration cannot be used."""
_Elements: TypeAlias = Sequence[tuple[DocumentPath, Any]]
"""The elements of a list, each with its path."""


class Reader:
    """Reads one document, and those of its subgraphs."""

    def __init__(
        self,
        document: YamlDocument,
        types: StoreTypes,
        folder: pathlib.Path,
        environment: Environment,
        outer: Reader | None,
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
        self.graphs: list[tuple[Reader, Subgraph]] = outer.graphs if outer else []
        """Every graph that was read, with the reader of its document; shared by all documents of a workflow."""
        self._parts = self._find_parts()
        self._vars = self._read_variables()
        self.variables: Mapping[str, Any] = {**(outer.variables if outer else {}), **self._vars}
        self._placeholders = Placeholders(self.variables, environment, self.report.spoil)
        self._validator = Validator(self.report, self._placeholders, types)

    # The document.

    def workflow(self) -> Workflow:
        """Return the workflow.

        Raises:
            ConfigError: something in it is wrong; carries every problem.
        """
        plugins = self._read_plugins()
        options = self._read_block("memory_options", MemoryOptions)
        graph = self._read_graph(self._parts, {})
        conversation = self._read_block("conversation", ConversationRecording)
        recalls = self._read_recalls()
        transaction = self._read_transaction()
        check_document(self.report, graph.nodes, graph.memory, self._parts, conversation, is_transaction=transaction)
        unresolved = self._unresolved()
        self.report.raise_errors()
        version = self._parts["version"].value if "version" in self._parts else None
        # Every part was validated as it was read; to build a validator for the whole takes 10 ms.
        return Workflow.model_construct(
            version="0.0.0" if version is None or isinstance(version, (dict, list)) else str(version),
            vars=self._vars,
            plugins=plugins,
            memory=graph.memory,
            memory_options=options or MemoryOptions(),
            conversation=conversation,
            record_recalls=recalls,
            transaction=transaction,
            start=graph.start,
            nodes=graph.nodes,
            edges=graph.edges,
            base_dir=self.folder,
            warnings=self.report.warnings,
            unresolved=unresolved,
        )

    def _find_parts(self) -> _Parts:
        """Return our parts by name; those that are absent are left out."""
        report, root = self.report, self.report.document.data
        parts = {name: NamedPart(path=(name,), value=root[name]) for name in _PARTS if name in root}
        self._check_keys((), root)
        graph = root.get("graph")
        if isinstance(graph, dict):
            self._check_keys(("graph",), graph)
            for name in (name for name in _PARTS if name in graph):
                path = ("graph", name)
                if name == "vars":
                    report.error(path, "`vars` belongs at the root of the document, beside `graph`", Rule.MISPLACED_KEY)
                elif name in parts and name not in ROOT_ONLY:
                    line = report.document.line((name,))
                    message = f"`{name}` stands here and at the root, on line {line}; keep one of them"
                    report.error(path, message, Rule.DUPLICATE_NAME)
                elif name not in ROOT_ONLY:
                    parts[name] = NamedPart(path=path, value=graph[name])
        elif "graph" in root and not parts.keys() & {"memory", "nodes"}:
            report.error(("graph",), f"expected a mapping, found {found(graph)}")
        if "memory" not in parts and "nodes" not in parts and "graph" not in root:
            report.error((), "there is neither `memory` nor `nodes`; this is not a workflow", Rule.INVALID_FILE)
        for name in ("conversation", "record_recalls", "transaction"):
            if (part := parts.get(name)) is not None and report.document.is_blank(part.path):
                report.warn(part.path, f"`{name}:` has no value, so it is left out", Rule.NO_EFFECT)
        return parts

    def _check_keys(self, path: DocumentPath, mapping: Mapping[Any, Any]) -> None:
        """Warn about keys of a document or a graph that are nearly those of a part, or belong below one."""
        for key in mapping:
            if not isinstance(key, str) or key in _PARTS or key == "graph":
                continue
            meant = _FOREIGN.get(key) or closest(key, _PARTS, cutoff=NEAR_MISS)
            below = (name for name, keys in _BLOCKS.items() if key in keys and name in mapping)
            block = next((name for name in below if self.report.document.is_blank((*path, name))), None)
            if meant and meant not in mapping:
                self.report.warn((*path, key), f"this key is not read; did you mean {meant!r}?", Rule.UNKNOWN_KEY)
            elif block is not None:
                message = f"this key is not read here; indent it, so that it belongs to `{block}:`, which has no value"
                self.report.warn((*path, key), message, Rule.MISPLACED_KEY)
            elif path and key in _NOT_CARRIED_OUT and mapping[key]:
                self.report.warn((*path, key), _NOT_CARRIED_OUT[key], Rule.NOT_SUPPORTED)

    def _read_variables(self) -> dict[str, Any]:
        part = self._parts.get("vars")
        if part is None or part.value is None:
            return {}
        if not isinstance(part.value, dict):
            self.report.error(part.path, f"expected a mapping, found {found(part.value, secret=True)}")
            return {}
        for key in part.value:
            if not isinstance(key, str):
                message = f"the name of a variable must be text, found {found(key)}"
                self.report.error((*part.path, key), message)
        return {key: value for key, value in part.value.items() if isinstance(key, str)}

    def _read_plugins(self) -> tuple[str, ...]:
        modules = []
        for path, value in self._elements(self._parts.get("plugins"), single=str):
            module = self._placeholders.expand(value, path)
            is_file = isinstance(module, str) and module.endswith(".py")
            if not isinstance(module, str) or not (is_file or all(map(str.isidentifier, module.split(".")))):
                expected = "expected the name of a Python module, or a file such as ./notes.py"
                self.report.error(path, f"{expected}, found {found(module)}")
                continue
            try:
                self._types.load_plugin(str(self.folder / module) if is_file else module)
            except PluginError as error:
                self.report.error(path, str(error))
            modules.append(module)
        return tuple(modules)

    def _read_block(self, name: str, model: type[Block]) -> Block | None:
        part, value = self._expanded_part(name)
        return None if part is None or value is None else self._validator.validate(model, value, part.path)

    def _read_recalls(self) -> RecallRecording | bool:
        part, wanted = self._expanded_part("record_recalls")
        if part is None or wanted is None or isinstance(wanted, bool):
            return bool(wanted)
        if not isinstance(wanted, dict):
            self.report.error(part.path, f"expected true, false or a mapping, found {found(wanted)}")
            return False
        return self._validator.validate(RecallRecording, wanted, part.path) or False

    def _read_transaction(self) -> bool:
        part, wanted = self._expanded_part("transaction")
        if part is not None and wanted is not None and not isinstance(wanted, bool):
            self.report.error(part.path, f"expected true or false, found {found(wanted)}")
        return wanted is True

    def _expanded_part(self, name: str) -> tuple[NamedPart | None, Any]:
        part = self._parts.get(name)
        return part, None if part is None else self._placeholders.expand(part.value, part.path)

    def _unresolved(self) -> tuple[Unresolved, ...]:
        """Return the values that wait for a variable which nothing sets, and warn about each."""
        unresolved = []
        for path, names in self._placeholders.missing.items():
            if not self.report.has_error_at(path):
                self.report.warn(path, unset_message(names), Rule.UNSET_VARIABLE)
            line = self.report.document.line(path)
            unresolved.append(Unresolved(path=path_text(path), location=path, line=line, names=names))
        return tuple(unresolved)

    # A graph.

    def _read_graph(self, parts: _Parts, inherited: _Stores, *, file: pathlib.Path | None = None) -> Subgraph:
        """Return what can be used of a graph; its own stores win over those that it inherits."""
        memory, declared = self._read_stores(parts.get("memory"))
        usable = {store.name: store for store in memory}
        stores: _Stores = {**inherited, **{name: usable.get(name) for name in declared}}
        ids: dict[str, DocumentPath] = {}
        nodes = [self._read_node(value, path, ids, stores) for path, value in self._elements(parts.get("nodes"))]
        edges = [(path, self._read_edge(value, path, ids)) for path, value in self._elements(parts.get("edges"))]
        start = self._read_start(parts.get("start"), ids)
        followed = [(path, edge) for path, edge in edges if edge is not None]
        graph = Subgraph(
            file=file,
            memory=memory,
            start=start,
            nodes=tuple(node for node in nodes if node is not None),
            edges=tuple(edge for _, edge in followed),
        )
        check_graph(self.report, self.folder, graph, followed, stores)
        self.graphs.append((self, graph))
        return graph

    def _elements(self, part: NamedPart | None, *, single: type | None = None) -> _Elements:
        """Return the elements of a list with their paths; one value of the type `single` may stand for a list of it."""
        if part is None or part.value is None:
            return []
        value = self._as_mapping(part.value, part.path)
        if single is not None and isinstance(value, single):
            return [(part.path, value)]
        if isinstance(value, list):
            return [((*part.path, index), element) for index, element in enumerate(value)]
        self.report.error(part.path, f"expected a list, found {found(value)}")
        return []

    def _as_mapping(self, value: object, path: DocumentPath) -> Any:  # noqa: ANN401 - as YAML has it
        """Return a value, or that of the placeholder which it is; inside of it, only what is read is expanded."""
        return self._placeholders.expand(value, path) if isinstance(value, str) else value

    def _note_name(self, known: dict[str, DocumentPath], name: object, path: DocumentPath, what: str) -> None:
        """Record where a name is declared; a second declaration is an error."""
        if isinstance(name, str) and name in known:
            line = self.report.document.line(known[name])
            message = f"the {what} {quoted(name)} is taken already, on line {line}; names must be unique"
            self.report.error(path, message, Rule.DUPLICATE_NAME)
        elif isinstance(name, str):
            known[name] = path

    def _read_stores(self, part: NamedPart | None) -> tuple[tuple[StoreDeclaration, ...], Collection[str]]:
        """Return the stores that can be used, and the names of all that are declared."""
        declared: dict[str, DocumentPath] = {}
        stores = []
        whole = (
            None if part is None else NamedPart(path=part.path, value=self._placeholders.expand(part.value, part.path))
        )
        for path, value in self._elements(whole, single=dict):
            if not isinstance(value, dict):
                expected = "expected a mapping with `name`, `type` and `config`"
                self.report.error(path, f"{expected}, found {found(value)}")
                continue
            self._note_name(declared, value.get("name"), (*path, "name"), "store name")
            settings = {} if value.get("config") is None else value["config"]
            store = self._validator.validate(StoreDeclaration, {**value, "config": settings}, path)
            if store is not None:
                self._check_empty(store.config, (*path, "config"))
                self._check_location(store.config, (*path, "config", "memory_path"))
                stores.append(store)
        return tuple(stores), declared

    def _check_empty(self, config: ConfigModel, path: DocumentPath) -> None:
        """Report keys without a value: what they were to turn on is off, or kept for one process only."""
        document = self.report.document
        written = document.nearest(path)
        texts = {key for key, value in written.items() if isinstance(value, str)} if isinstance(written, dict) else ()
        for key, info in type(config).model_fields.items():
            where = (*path, key)
            is_blank = document.is_blank(where)
            if key in ("memory_path", "index_path") and getattr(config, key) is None and key in config.model_fields_set:
                if is_blank or key in texts:
                    message = "this is empty, so the items are kept for this process only; name a file, or write null"
                    self.report.warn(where, message, Rule.NO_EFFECT)
            elif is_blank and mentions(info.annotation, type(None)) and any(models_in(info.annotation)):
                message = f"`{key}:` has no value, so it is left out"
                if key == "encryption":
                    # It would be missed too late: once plain files are written, they are.
                    self.report.error(where, f"{message}; write its `key`, or null for plain files")
                else:
                    hint = "write its settings, {} for the defaults, or null for none"
                    self.report.warn(where, f"{message}; {hint}", Rule.NO_EFFECT)

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
        value, inside = self._as_mapping(value, path), (*path, "config")
        if not isinstance(value, dict):
            expected = "expected a mapping with `id`, `type` and `config`"
            self.report.error(path, f"{expected}, found {found(value)}")
            return None
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in _NODE_KEYS if key in value}
        self._note_name(ids, data.get("id"), (*path, "id"), "node id")
        kind, written = data.get("type"), value.get("config")
        self._check_node(value, kind, path)
        settings: LiteralConfig | PassthroughConfig | Subgraph | None = None
        if kind == "agent":
            data["config"] = self._read_agent(written, inside, stores)
        elif kind == "subgraph":
            settings = self._read_subgraph(written, inside, stores)
        elif isinstance(kind, str) and kind in SETTINGS:
            self._validator.look_over_all(SETTINGS[kind], written, inside)
            expanded = self._placeholders.expand({} if written is None else written, inside)
            settings = self._validator.validate(SETTINGS[kind], expanded, inside)
        node = self._validator.validate(NodeConfig, data, path)
        if node is not None:
            node.set_settings(settings)
        return node

    def _check_node(self, node: Mapping[Any, Any], kind: object, path: DocumentPath) -> None:
        """Report keys that stand in the wrong place, and types that devmem does not carry out."""
        report = self.report
        self._validator.look_over(NodeConfig, node, path)
        config = node.get("config")
        own = config if isinstance(config, dict) else {}
        for key in (key for key in node if kind == "agent" and key in _AGENT_KEYS and key not in own):
            if key in ONLY_IN_CONFIG:
                message = f"`{key}` belongs inside the agent's `config`, where it is read"
                report.error((*path, key), message, Rule.MISPLACED_KEY)
            elif key not in _NODE_KEYS and key not in NodeConfig.foreign:
                message = f"this key is not read here; `{key}` belongs inside `config`"
                report.warn((*path, key), message, Rule.MISPLACED_KEY)
        if not isinstance(kind, str) or not kind:
            return
        if kind not in NODE_TYPES:
            meant = closest(kind, NODE_TYPES)
            hint = f"; did you mean {meant!r}?" if meant else "; its input is passed on"
            report.warn((*path, "type"), f"devmem knows no node type {quoted(kind)}{hint}", Rule.UNKNOWN_NAME)
        elif kind not in CARRIED_OUT and kind != "human":
            # Nodes that ask a person are left to the runner: the first of them gets what the person said, the input.
            message = f"a node of type {kind!r} is not carried out; its input is passed on"
            report.warn((*path, "type"), message, Rule.NOT_SUPPORTED)

    def _read_agent(self, value: object, path: DocumentPath, stores: _Stores) -> AgentConfig | None:
        value, report = self._as_mapping(value, path), self.report
        if not isinstance(value, dict):
            return self._validator.validate(AgentConfig, {} if value is None else value, path)
        self._validator.look_over_all(AgentConfig, value, path)
        if "memory" in value:
            message = (
                "an agent has no `memory` of its own: declare the store under the document's `memory` and name it in "
                "the agent's `memories`"
            )
            report.error((*path, "memory"), message, Rule.MISPLACED_KEY)
        for key in (key for key in value if key in _ATTACHMENT_KEYS):
            message = f"this key is not read here; `{key}` belongs inside an entry of `memories`"
            report.warn((*path, key), message, Rule.MISPLACED_KEY)
        if value.get("input_mode") not in (None, "messages"):
            message = "the model gets its input as messages; `input_mode` is not read"
            report.warn((*path, "input_mode"), message, Rule.NOT_SUPPORTED)
        thinking = value.get("thinking")
        way = thinking.get("type") if isinstance(thinking, dict) else None
        if way not in (None, "reflection"):
            message = f"thinking of type {str(way)[:40]!r} is not carried out"
            report.warn((*path, "thinking"), message, Rule.NOT_SUPPORTED)
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in _AGENT_KEYS if key in value}
        check_attachments(report, data.get("memories"), (*path, "memories"), stores, self._placeholders.missing)
        return self._validator.validate(AgentConfig, data, path)

    def _read_edge(self, value: object, path: DocumentPath, ids: Collection[str]) -> Edge | None:
        if not isinstance(value, dict):
            return self._validator.validate(Edge, value, path)
        # Without a key of a condition that is misspelt, its edge would be followed unasked.
        self._validator.look_over_all(Edge, value, path)
        keys = (key for key in all_keys([Edge]) if key in value)
        data = {key: self._placeholders.expand(value[key], (*path, key)) for key in keys}
        for key in ("from", "to"):
            if isinstance(data.get(key), str):
                self._check_id(data[key], (*path, key), ids)
        return self._validator.validate(Edge, data, path)

    def _read_start(self, part: NamedPart | None, ids: Collection[str]) -> tuple[str, ...]:
        start = []
        for path, value in self._elements(part, single=str):
            id_ = self._placeholders.expand(value, path)
            if isinstance(id_, str):
                self._check_id(id_, path, ids)
                start.append(id_)
            else:
                self.report.error(path, f"expected the id of a node, found {found(id_)}")
        return tuple(start)

    def _check_id(self, id_: str, path: DocumentPath, ids: Collection[str]) -> None:
        if id_ not in ids and not self.report.is_full:
            message = f"there is no node {quoted(id_)}{did_you_mean(id_, ids)} Nodes: {choices(ids)}."
            self.report.error(path, message, Rule.UNKNOWN_NAME)

    # Subgraphs.

    def _read_subgraph(self, value: object, path: DocumentPath, stores: _Stores) -> Subgraph | None:
        """Return the graph that the `config` of a subgraph node holds or names."""
        config = self._as_mapping(value, path)
        if not isinstance(config, dict):
            self.report.error(path, f"expected a mapping with `type` and `config`, found {found(config)}")
            return None
        kind = self._as_mapping(config.get("type"), (*path, "type"))
        inside = (*path, "config")
        inner = self._as_mapping(config.get("config"), inside)
        if kind not in ("config", "file"):
            message = f"expected `config` (the graph stands here) or `file` (it has a file), found {found(kind)}"
            self.report.error((*path, "type"), message)
        elif not isinstance(inner, dict):
            wanted = "with the subgraph's `nodes`" if kind == "config" else "with the file's `path`"
            self.report.error(inside, f"expected a mapping {wanted}, found {found(inner)}")
        elif kind == "file":
            return self._read_file(inner.get("path"), (*inside, "path"), stores)
        else:
            self._check_keys(inside, inner)
            if "nodes" not in inner:
                self.report.error((*inside, "nodes"), "this key is required")
            if "vars" in inner:
                message = "this key is not read; `vars` belongs at the root of the document"
                self.report.warn((*inside, "vars"), message, Rule.MISPLACED_KEY)
            names = (name for name in _OF_SUBGRAPHS if name in inner)
            return self._read_graph(
                {name: NamedPart(path=(*inside, name), value=inner[name]) for name in names}, stores
            )
        return None

    def _read_file(self, value: object, path: DocumentPath, stores: _Stores) -> Subgraph | None:
        name = self._as_mapping(value, path)
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
        graph = reader._read_graph(reader._parts, stores, file=file)
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
    for inner, graph in reader.graphs:
        review(inner.report, inner.folder, graph, workflow)
        reader.report.include(inner.report.findings if inner is not reader else ())
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
    reader = _reader(read_text(file, str(path)), store_types, str(path), file.parent, environ)
    return reader.workflow().model_copy(update={"file": file})


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
    return Reader(document, types, folder or pathlib.Path(), Environment(environ, folder=folder), None)
