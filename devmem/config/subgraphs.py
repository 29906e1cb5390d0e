"""A graph of a document: its stores, nodes and edges, and the subgraphs in it, which have the same."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from devmem.config.attachments_check import warn_about_attachments
from devmem.config.compose import compose
from devmem.config.document import Path
from devmem.config.elements import elements_of
from devmem.config.environment import Environment
from devmem.config.graph_reading import GraphReader
from devmem.config.layout import Part, find_parts, parts_of_subgraph
from devmem.config.not_supported import warn_about_edges, warn_about_graph, warn_about_nodes
from devmem.config.placeholders import Placeholders
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.source import read_text
from devmem.config.store import StoreDeclaration
from devmem.config.store_reading import StoreReader
from devmem.config.store_types import StoreTypes
from devmem.config.validate import Validator
from devmem.config.variables import read_variables, unresolved_in
from devmem.config.wording import found, quoted
from devmem.config.workflow import Subgraph
from devmem.errors import ConfigError

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
    declared: dict[str, Path] = {}
    memory = reader.read(elements, declared)
    usable = {store.name: store for store in memory}
    return memory, {**context.inherited, **{name: usable.get(name) for name in declared}}


class _SubgraphReader:
    """Reads the subgraphs of one graph; a file that several nodes name is read once."""

    def __init__(self, context: ReadingContext) -> None:
        self._context = context
        self._by_file: dict[pathlib.Path, Subgraph | None] = {}

    def read(self, value: object, path: Path) -> Subgraph | None:
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

    def _inline(self, graph: Mapping[Any, Any], path: Path) -> Subgraph:
        if "nodes" not in graph:
            self._error((*path, "nodes"), "this key is required")
        warn_about_graph(self._context.report, graph, path)
        return read_graph(self._context, parts_of_subgraph(self._context.report, graph, path))

    def _named(self, config: Mapping[Any, Any], path: Path) -> Subgraph | None:
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

    def _from_file(self, file: pathlib.Path, resolved: pathlib.Path, path: Path) -> Subgraph | None:
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

    def _mapping(self, value: object, path: Path, wanted: str) -> Mapping[Any, Any] | None:
        expanded = self._expanded(value, path)
        if isinstance(expanded, dict):
            return expanded
        self._error(path, f"expected a mapping {wanted}, found {found(expanded)}")
        return None

    def _expanded(self, value: object, path: Path) -> object:
        return self._context.placeholders.expand(value, path) if isinstance(value, str) else value

    def _error(self, path: Path, message: str, rule: Rule = Rule.INVALID_VALUE) -> None:
        self._context.report.error(path, message, rule)
