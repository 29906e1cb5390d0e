"""The parts of a document to a `Workflow`; everything wrong in them is reported together."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from devmem.config.base import MemoryOptions
from devmem.config.compose import compose
from devmem.config.document import Document, Report, read_text
from devmem.config.findings import Rule, found
from devmem.config.graph import ReadingContext, elements_of, find_parts, read_graph, read_variables, unresolved_in
from devmem.config.placeholders import Environment, Placeholders
from devmem.config.rules import inspect, inspect_graph
from devmem.config.store import StoreTypes
from devmem.config.subjects import Graph, Inspection, Root
from devmem.config.validate import Validator
from devmem.config.workflow import ConversationRecording, NodeConfig, RecallRecording, Subgraph, Workflow
from devmem.errors import ConfigError, Finding, Level, PluginError


class Reader:
    """Reads one document."""

    def __init__(self, document: Document, store_types: StoreTypes, environment: Environment) -> None:
        self._document, self._store_types, self._environment = document, store_types, environment
        self._report = Report(document)
        self._parts = find_parts(self._report)
        for name in ("conversation", "record_recalls", "transaction"):
            if (part := self._parts.get(name)) is not None and document.is_blank(part.path):
                self._report.warn(part.path, f"`{name}:` has no value, so it is left out", Rule.NO_EFFECT)
        self._variables = read_variables(self._report, self._parts.get("vars"))
        self._placeholders = Placeholders(self._variables, environment, self._report.spoil)
        self._validator = Validator(self._report, self._placeholders)

    def workflow(self, base_dir: pathlib.Path) -> Workflow:
        """Return the workflow.

        Raises:
            ConfigError: something in it is wrong; carries every problem.
        """
        plugins = self._read_plugins(base_dir)
        options = self._read_options()
        context = self._context(base_dir)
        graph = read_graph(context, self._parts)
        conversation = self._read_conversation(graph, context.inspection)
        recalls = self._read_recalls()
        transaction = self._read_transaction(graph, context.inspection)
        inspect(Root((), context.inspection, graph.nodes, graph.memory))
        unresolved = unresolved_in(self._report, self._placeholders)
        self._report.raise_errors()
        # Every part was validated as it was read; to build a validator for the whole takes 10 ms.
        return Workflow.model_construct(
            version=self._version(),
            vars=self._variables,
            plugins=plugins,
            memory=graph.memory,
            memory_options=options,
            conversation=conversation,
            record_recalls=recalls,
            transaction=transaction,
            start=graph.start,
            nodes=graph.nodes,
            edges=graph.edges,
            base_dir=base_dir,
            warnings=self._report.warnings,
            unresolved=unresolved,
        )

    def review(self, workflow: Workflow) -> tuple[Finding, ...]:
        """Return the findings about the workflow that was read, after a closer look at it.

        Files of subgraphs are read again; beside that nothing is opened, asked or written.
        """
        from devmem.config import closer_look  # noqa: F401 - registers its rules

        wanted = RecallRecording() if workflow.record_recalls is True else workflow.record_recalls
        kept = wanted.retention if wanted else 0.0
        inspection = Inspection(report=self._report, base_dir=workflow.base_dir, close=True, recalls_kept=kept)
        inspect_graph(Graph((), inspection, workflow.nodes, workflow.memory, recorded=workflow.recording_stores), {})
        _review_subgraphs(inspection, workflow.nodes, set())
        return self._report.findings

    def _version(self) -> str:
        version = self._parts["version"].value if "version" in self._parts else None
        return "0.0.0" if version is None or isinstance(version, (dict, list)) else str(version)

    def _read_plugins(self, base_dir: pathlib.Path) -> tuple[str, ...]:
        modules = []
        for path, value in elements_of(self._report, self._placeholders, self._parts.get("plugins"), single=str):
            module = self._placeholders.expand(value, path)
            is_file = isinstance(module, str) and module.endswith(".py")
            if not isinstance(module, str) or not (is_file or all(map(str.isidentifier, module.split(".")))):
                expected = "expected the name of a Python module, or a file such as ./notes.py"
                self._report.error(path, f"{expected}, found {found(module)}")
                continue
            try:
                self._store_types.load_plugin(str(base_dir / module) if is_file else module)
            except PluginError as error:
                self._report.error(path, str(error))
            modules.append(module)
        return tuple(modules)

    def _read_options(self) -> MemoryOptions:
        part = self._parts.get("memory_options")
        if part is None or part.value is None:
            return MemoryOptions()
        expanded = self._placeholders.expand(part.value, part.path)
        return self._validator.validate(MemoryOptions, expanded, part.path) or MemoryOptions()

    def _read_conversation(self, graph: Subgraph, inspection: Inspection) -> ConversationRecording | None:
        part = self._parts.get("conversation")
        if part is None or part.value is None:
            return None
        expanded = self._placeholders.expand(part.value, part.path)
        recording = self._validator.validate(ConversationRecording, expanded, part.path)
        if recording is not None:
            inspect(Root(part.path, inspection, graph.nodes, graph.memory, recording))
        return recording

    def _read_recalls(self) -> RecallRecording | bool:
        part = self._parts.get("record_recalls")
        wanted = None if part is None else self._placeholders.expand(part.value, part.path)
        if part is None or wanted is None or isinstance(wanted, bool):
            return bool(wanted)
        if not isinstance(wanted, dict):
            self._report.error(part.path, f"expected true, false or a mapping, found {found(wanted)}")
            return False
        return self._validator.validate(RecallRecording, wanted, part.path) or False

    def _read_transaction(self, graph: Subgraph, inspection: Inspection) -> bool:
        part = self._parts.get("transaction")
        if part is None or part.value is None:
            return False
        wanted = self._placeholders.expand(part.value, part.path)
        if not isinstance(wanted, bool):
            self._report.error(part.path, f"expected true or false, found {found(wanted)}")
            return False
        if wanted and not self._report.has_errors:
            inspect(Root(part.path, inspection, graph.nodes, graph.memory, transaction=True))
        return wanted is True

    def _context(self, base_dir: pathlib.Path) -> ReadingContext:
        origin = self._document.origin
        return ReadingContext(
            report=self._report,
            placeholders=self._placeholders,
            validator=self._validator,
            store_types=self._store_types,
            environment=self._environment,
            variables=self._variables,
            folders=(base_dir,),
            files=(pathlib.Path(origin).resolve(),) if origin else (),
        )


def _review_subgraphs(inspection: Inspection, nodes: Iterable[NodeConfig], reviewed: set[pathlib.Path]) -> None:
    for graph in (node.settings for node in nodes if isinstance(node.settings, Subgraph)):
        inner = inspection
        if graph.file is not None:
            if graph.file in reviewed:
                continue
            reviewed.add(graph.file)
            report = Report(compose(read_text(graph.file, str(graph.file)), origin=str(graph.file)))
            inner = replace(inspection, report=report, base_dir=graph.file.parent)
        inspect_graph(Graph((), inner, graph.nodes, graph.memory), {})
        _review_subgraphs(inner, graph.nodes, reviewed)
        if inner is not inspection:
            inspection.report.include(inner.report.findings)


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
    file = pathlib.Path(path)
    try:
        document = compose(read_text(file, str(path)), origin=str(path))
        reader = Reader(document, store_types, Environment(environ, folder=file.parent))
        workflow = reader.workflow(file.parent).model_copy(update={"file": file})
    except ConfigError as error:
        return WorkflowCheck(file=str(path), workflow=None, findings=error.findings)
    return WorkflowCheck(file=str(path), workflow=workflow, findings=reader.review(workflow))


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
    return _parsed(text, store_types, origin=str(path), base_dir=file.parent, environ=environ).model_copy(
        update={"file": file}
    )


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
    return _parsed(text, store_types, origin=origin, base_dir=base_dir, environ=environ)


def _parsed(
    text: str,
    store_types: StoreTypes,
    *,
    origin: str,
    base_dir: pathlib.Path | None,
    environ: Mapping[str, str] | None,
) -> Workflow:
    document = compose(text, origin=origin)
    environment = Environment(environ, folder=base_dir)
    return Reader(document, store_types, environment).workflow(base_dir or pathlib.Path())
