"""The parts of a document to a `Workflow`; everything wrong in them is reported together."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from devmem.config.attachments_check import warn_about_attachments
from devmem.config.base import ConfigModel
from devmem.config.document import Document, Path, path_text
from devmem.config.environment import Environment
from devmem.config.graph_reading import GraphReader, note_name
from devmem.config.layout import Part, find_parts
from devmem.config.not_supported import warn_about_edges, warn_about_graph, warn_about_nodes
from devmem.config.options import MemoryOptions
from devmem.config.paths_check import warn_about_paths
from devmem.config.placeholders import Placeholders, Unresolved
from devmem.config.report import Report
from devmem.config.retrieval import RetrievalConfig
from devmem.config.review import review
from devmem.config.rules import Rule
from devmem.config.store import StoreDeclaration
from devmem.config.store_types import StoreTypes
from devmem.config.validate import Validator
from devmem.config.wording import choices, did_you_mean, found, quoted
from devmem.config.workflow import Workflow, unset_message
from devmem.errors import Finding, StoreTypeError

_OTHERS = "Others need their package installed, or their module under `plugins`."


class Reader:
    """Reads one document."""

    def __init__(self, document: Document, store_types: StoreTypes, environment: Environment) -> None:
        self._document, self._store_types = document, store_types
        self._report = Report(document)
        self._parts = find_parts(self._report)
        self._variables = self._read_variables()
        self._placeholders = Placeholders(self._variables, environment, self._report.spoil)
        self._validator = Validator(self._report, self._placeholders)
        self._declared: dict[str, Path] = {}

    def workflow(self, base_dir: pathlib.Path) -> Workflow:
        """Return the workflow.

        Raises:
            ConfigError: something in it is wrong; carries every problem.
        """
        plugins = self._read_plugins()
        memory = self._read_stores()
        options = self._read_options()
        graph = GraphReader(self._report, self._placeholders, self._validator, self._declared)
        listed = {name: self._elements(name) for name in ("nodes", "edges")}
        nodes = graph.read_nodes(listed["nodes"])
        edges = graph.read_edges(listed["edges"])
        start = graph.read_start(self._elements("start", single=str))
        warn_about_attachments(self._report, nodes, memory)
        warn_about_graph(self._report, self._document.data.get("graph"), ("graph",))
        warn_about_nodes(self._report, listed["nodes"])
        warn_about_edges(self._report, listed["edges"])
        warn_about_paths(self._report, memory, base_dir)
        unresolved = self._unresolved()
        self._report.raise_errors()
        return Workflow(
            version=self._version(),
            vars=self._variables,
            plugins=plugins,
            memory=memory,
            memory_options=options,
            start=start,
            nodes=nodes,
            edges=edges,
            base_dir=base_dir,
            warnings=self._report.warnings,
            unresolved=unresolved,
        )

    def review(self, workflow: Workflow) -> tuple[Finding, ...]:
        """Return the warnings and notes about the workflow that was read, after a closer look at it."""
        review(self._report, workflow)
        return self._report.warnings

    def _read_variables(self) -> dict[str, Any]:
        part = self._parts.get("vars")
        if part is None or part.value is None:
            return {}
        if not isinstance(part.value, dict):
            self._report.error(part.path, f"expected a mapping, found {found(part.value, secret=True)}")
            return {}
        for key in part.value:
            if not isinstance(key, str):
                self._report.error((*part.path, key), f"the name of a variable must be text, found {found(key)}")
        return {key: value for key, value in part.value.items() if isinstance(key, str)}

    def _version(self) -> str:
        version = self._parts["version"].value if "version" in self._parts else None
        return "0.0.0" if version is None or isinstance(version, (dict, list)) else str(version)

    def _read_plugins(self) -> tuple[str, ...]:
        modules = []
        for path, value in self._elements("plugins", single=str):
            module = self._placeholders.expand(value, path)
            if not isinstance(module, str) or not all(step.isidentifier() for step in module.split(".")):
                self._report.error(path, f"expected the name of a Python module, found {found(module)}")
                continue
            try:
                self._store_types.load_plugin(module)
            except StoreTypeError as error:
                self._report.error(path, str(error))
            modules.append(module)
        return tuple(modules)

    def _read_stores(self) -> tuple[StoreDeclaration, ...]:
        part = self._parts.get("memory")
        if part is not None:
            expanded = self._placeholders.expand(part.value, part.path)
            self._parts = {**self._parts, "memory": Part(path=part.path, value=expanded)}
        stores = (self._read_store(value, path) for path, value in self._elements("memory", single=dict))
        return tuple(store for store in stores if store is not None)

    def _read_store(self, value: object, path: Path) -> StoreDeclaration | None:
        if not isinstance(value, dict):
            self._report.error(path, f"expected a mapping with `name`, `type` and `config`, found {found(value)}")
            return None
        note_name(self._report, self._declared, value.get("name"), (*path, "name"), "store name")
        model = self._config_model(value, path)
        settings = value.get("config")
        config = (
            self._validator.validate(model, {} if settings is None else settings, (*path, "config")) if model else None
        )
        if config is not None:
            self._check_reranker(config, (*path, "config"))
        header = {**value, "config": config if config is not None else ConfigModel()}
        store = self._validator.validate(StoreDeclaration, header, path)
        return store if config is not None else None

    def _config_model(self, value: Mapping[Any, Any], path: Path) -> type[ConfigModel] | None:
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
        except StoreTypeError as error:
            self._report.error(where, str(error))
            return None

    def _check_reranker(self, config: ConfigModel, path: Path) -> None:
        """Refuse a reranker that nobody offers."""
        for key, block in config:
            if not isinstance(block, RetrievalConfig):
                continue
            name, where = block.reranker.type, (*path, key, "reranker", "type")
            known = self._store_types.rerankers()
            if where in self._placeholders.missing:
                self._report.error(where, unset_message(self._placeholders.missing[where]), Rule.UNSET_VARIABLE)
            elif name not in known:
                hint = f"unknown reranker {quoted(name)}{did_you_mean(name, known)} Possible: {choices(known)}."
                self._report.error(where, f"{hint} {_OTHERS}", Rule.UNKNOWN_NAME)

    def _read_options(self) -> MemoryOptions:
        part = self._parts.get("memory_options")
        if part is None or part.value is None:
            return MemoryOptions()
        expanded = self._placeholders.expand(part.value, part.path)
        return self._validator.validate(MemoryOptions, expanded, part.path) or MemoryOptions()

    def _elements(self, name: str, *, single: type | None = None) -> list[tuple[Path, Any]]:
        """Return the elements of a list with their paths; one value of the type `single` may stand for a list of it."""
        part = self._parts.get(name)
        if part is None or part.value is None:
            return []
        value = self._placeholders.expand(part.value, part.path) if isinstance(part.value, str) else part.value
        if single is not None and isinstance(value, single):
            return [(part.path, value)]
        if isinstance(value, list):
            return [((*part.path, index), element) for index, element in enumerate(value)]
        self._report.error(part.path, f"expected a list, found {found(value)}")
        return []

    def _unresolved(self) -> tuple[Unresolved, ...]:
        found_ = []
        for path, names in self._placeholders.missing.items():
            if not self._report.has_error_at(path):
                self._report.warn(path, unset_message(names), Rule.UNSET_VARIABLE)
            line = self._document.line(path)
            found_.append(Unresolved(path=path_text(path), location=path, line=line, names=names))
        return tuple(found_)
