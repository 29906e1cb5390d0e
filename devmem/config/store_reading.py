"""Declarations of stores to their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from devmem.config.agent import CARRIED_OUT, NODE_TYPES
from devmem.config.base import ConfigModel, all_keys, mentions
from devmem.config.document import DocumentPath
from devmem.config.findings import Rule, choices, did_you_mean, found, quoted
from devmem.config.placeholders import Placeholders, has_placeholder
from devmem.config.report import Report
from devmem.config.store import EmbeddingConfig, RetrievalConfig, StoreDeclaration, StoreTypes
from devmem.config.validate import Validator
from devmem.config.workflow import Edge, Part, unset_message
from devmem.errors import CollectionError, MissingExtraError, PluginError

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

    def _check_place(self, config: ConfigModel, path: DocumentPath) -> None:
        """Refuse a URL that is misspelled, that nothing opens, or where the store cannot keep all that it has to."""
        location = getattr(config, "memory_path", None)
        # Nearly every path has neither, and needs no opener.
        if not isinstance(location, str) or not (":" in location or "=" in location):
            return
        if path in self._placeholders.missing or has_placeholder(location):
            return
        try:
            self._store_types.check_location(location, states=getattr(config, "keeps_states", False))
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
        for key, field in model.model_fields.items():
            if mentions(field.annotation, EmbeddingConfig):
                known = self._store_types.embedding_providers()
                self._check_name("embedding provider", settings, (key, "provider"), known, path)
            elif mentions(field.annotation, RetrievalConfig):
                known = self._store_types.embedding_providers()
                self._check_name("embedding provider", settings, (key, "tokens", "provider"), known, path)
                self._check_name("reranker", settings, (key, "reranker", "type"), self._store_types.rerankers(), path)

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


RawElements = Sequence[tuple[DocumentPath, Any]]

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


def warn_about_graph(report: Report, graph: object, path: DocumentPath) -> None:
    """Warn about settings of a whole graph that are not carried out."""
    _warn_about(report, graph, path, _GRAPH)


def warn_about_nodes(report: Report, elements: RawElements) -> None:
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


def warn_about_edges(report: Report, elements: RawElements) -> None:
    """Warn about settings of edges that are not carried out."""
    for path, edge in elements:
        _warn_about(report, edge, path, _EDGE)


def warn_about_condition(report: Report, edge: Edge, path: DocumentPath) -> None:
    """Warn about an edge whose condition cannot be evaluated."""
    if edge.condition.function is not None:
        message = (
            f"the condition is the Python function {edge.condition.function!r}, which is not called; "
            "the edge is not followed, and what only it leads to does not run"
        )
        report.warn((*path, "condition"), message, Rule.NOT_SUPPORTED)


def _warn_about_input(report: Report, config: object, path: DocumentPath) -> None:
    """Warn about a mode other than DevAll's default, which is how a model gets its input here."""
    mode = config.get("input_mode") if isinstance(config, dict) else None
    if mode not in (None, "messages"):
        message = "the model gets its input as messages; `input_mode` is not read"
        report.warn(path, message, Rule.NOT_SUPPORTED)


def _warn_about_thinking(report: Report, config: object, path: DocumentPath) -> None:
    thinking = config.get("thinking") if isinstance(config, dict) else None
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in (None, "reflection"):
        report.warn(path, f"thinking of type {str(kind)[:40]!r} is not carried out", Rule.NOT_SUPPORTED)


def _warn_about(report: Report, mapping: object, path: DocumentPath, messages: Mapping[str, str]) -> None:
    for key, message in messages.items():
        if isinstance(mapping, dict) and mapping.get(key):
            report.warn((*path, key), message, Rule.NOT_SUPPORTED)
