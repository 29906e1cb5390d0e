"""The rules that every workflow is held against while it is read; `review` has those of `devmem validate` alone."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from devmem.config.agent import AgentConfig, Attachment
from devmem.config.document import DocumentPath, Report
from devmem.config.findings import Rule, choices, did_you_mean, quoted
from devmem.config.placeholders import has_placeholder
from devmem.config.store import StoreDeclaration
from devmem.config.workflow import (
    ConversationRecording,
    Edge,
    NodeConfig,
    Subgraph,
    base_dir_of,
    source_paths,
    unset_message,
    written_stores,
)
from devmem.errors import Level
from devmem.model.caller import RETRIEVING, Stage
from devmem.text.files import expanded


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPart:
    """A part of a document, as it was written."""

    path: DocumentPath
    value: Any


def check_attachments(
    report: Report,
    entries: object,
    path: DocumentPath,
    stores: Mapping[str, StoreDeclaration | None],
    missing: Mapping[DocumentPath, tuple[str, ...]],
) -> None:
    """Check the names in an agent's `memories`, placeholders put in.

    Args:
        report: takes the findings.
        entries: the list.
        path: where it stands.
        stores: what the agent may attach.
        missing: unset variables by the place that waits for them.
    """
    seen: dict[str, DocumentPath] = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        name = entry.get("name") if isinstance(entry, dict) else entry
        where = (*path, index) if isinstance(entry, str) else (*path, index, "name")
        if not isinstance(name, str):
            continue
        if where in missing:
            report.error(where, unset_message(missing[where]), Rule.UNSET_VARIABLE)
        elif name in seen:
            line = report.document.line(seen[name])
            message = f"the store {quoted(name)} is attached to this node already, on line {line}"
            report.error(where, message, Rule.DUPLICATE_NAME)
        elif name and name not in stores:
            report.error(where, _no_store(name, stores), Rule.UNKNOWN_NAME)
        seen.setdefault(name, where)


def _no_store(name: str, declared: Iterable[str]) -> str:
    names = [*declared]
    return f"there is no store {quoted(name)}{did_you_mean(name, names)} Declared stores: {choices(names)}."


def check_graph(
    report: Report,
    folder: pathlib.Path,
    graph: Subgraph,
    edges: Sequence[tuple[DocumentPath, Edge]],
    stores: Mapping[str, StoreDeclaration | None],
) -> None:
    """Check the parts of a graph that can be used, without its subgraphs.

    Args:
        report: takes the findings.
        folder: where relative paths start.
        graph: what was read.
        edges: its edges with their places.
        stores: what its agents may attach, by name: stores of the graphs around it too.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for path, edge in edges:
        sorter.add(edge.target, edge.source)
        if (function := edge.condition.function) is not None:
            message = (
                f"the condition is the Python function {function!r}, which is not called; the edge is not followed, "
                "and what only it leads to does not run"
            )
            report.warn((*path, "condition"), message, Rule.NOT_SUPPORTED)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        around = set(pairwise(circle))
        closing = [path for path, edge in edges if (edge.source, edge.target) in around][-1]
        names = " -> ".join(quoted(name) for name in circle)
        message = f"the edges {names} lead in a circle; each node runs once, and no edge is followed back"
        report.warn(closing, message, Rule.CYCLE)
    for store in graph.memory:
        path = (*store.place.location, "config")
        if path[0] == "graph":
            # DevAll looks for files in the working directory.
            report_missing_sources(report, path, store, folder)
            _check_files_of_devall(report, path, store, folder)
        if str(getattr(store.config, "memory_path", None)).endswith(".json"):
            # Such a file is written at the end, when it is too late to learn that it cannot be.
            report_unwritable(report, path, store, folder, Level.WARNING)
    for node in graph.nodes:
        for index, entry in enumerate(node.config.memories if node.config is not None else ()):
            attached = stores.get(entry.name)
            if node.config is not None and attached is not None:
                where = (*node.place.location, "config", "memories", index)
                _check_attachment(report, where, entry, node.config, attached)


def _check_attachment(
    report: Report, path: DocumentPath, entry: Attachment, agent: AgentConfig, store: StoreDeclaration
) -> None:
    """Warn about settings of an attachment that change nothing."""

    def warn(key: str, message: str) -> None:
        report.warn((*path, key), message, Rule.NO_EFFECT)

    read_only = getattr(store.config, "read_only", False)
    if entry.write and "write" in entry.model_fields_set and read_only:
        warn("write", f"stores of type {store.type!r} are read-only; nothing will be written")
    if entry.ttl is not None and (not entry.write or read_only):
        warn("ttl", "nothing is written to this store here, so nothing expires")
    if entry.view is not None and "view" not in type(store.config).model_fields:
        warn("view", f"stores of type {store.type!r} have no views; all of it is read")
    if not entry.read and not entry.write:
        warn("read", "this store is neither read nor written here")
    view = entry.view or getattr(store.config, "view", None)
    by_time = view is not None and view.order != "search"
    if entry.similarity_threshold > -1 and (by_time or not getattr(store.config, "has_similarity", True)):
        advice = "; `view: {order: search}` finds by similarity" if by_time else ""
        warn("similarity_threshold", f"the latest items are read here, whatever their similarity{advice}")
    stages = [("retrieve_stage", stage) for stage in (entry.retrieve_stage or () if entry.read else ())]
    stages += [("write_stage", stage) for stage in (entry.write_stage if entry.write else ())]
    prompts = {Stage.PLAN: agent.plan, Stage.CRITIQUE: agent.critique}
    for key, stage in stages:
        if key == "retrieve_stage" and stage is Stage.FINISHED:
            message = "what is found at the stage 'finished' reaches no prompt, only the result of the run"
            warn(key, f"{message}; prompts are reached from {choices(RETRIEVING)}")
        if stage in prompts and prompts[stage] is None:
            warn(key, f"the stage {stage.value!r} does not happen here, because the agent has no `{stage.value}`")


def check_document(
    report: Report,
    nodes: Sequence[NodeConfig],
    stores: Sequence[StoreDeclaration],
    parts: Mapping[str, NamedPart],
    recording: ConversationRecording | None,
    *,
    is_transaction: bool,
) -> None:
    """Check what the stores and the blocks of a whole document say of one another."""
    declared = {store.name: store for store in stores}
    if recording is not None:
        _check_recording(report, parts["conversation"].path, recording, declared)
    _check_agents(report, nodes, parts, recording)
    _check_composed(report, declared)
    _check_encryption(report, stores)
    for store in written_stores(stores, nodes) if is_transaction else ():
        location = getattr(store.config, "memory_path", None) or ""
        if not getattr(store.config, "keeps_versions", False):
            reason = f"stores of the type {store.type!r} cannot hold what is not committed yet"
        elif location.endswith(".json"):
            reason = f"the JSON file {location} cannot hold what is not committed yet; a path that ends with .db can"
        else:
            continue
        message = f"the store {store.name!r} cannot take part in a transaction: {reason}"
        report.error(parts["transaction"].path, message)


def _check_recording(
    report: Report, path: DocumentPath, block: ConversationRecording, declared: Mapping[str, StoreDeclaration]
) -> None:
    for index, rule in enumerate(block.copies):
        where = (*path, "copies", index, "into")
        if rule.into not in declared:
            report.error(where, _no_store(rule.into, declared), Rule.UNKNOWN_NAME)
        elif rule.into == block.store:
            report.error(where, f"the records are in {quoted(rule.into)} already; name another store")
    store = declared.get(block.store)
    if store is None:
        report.error((*path, "store"), _no_store(block.store, declared), Rule.UNKNOWN_NAME)
    elif not getattr(store.config, "keeps_records", False):
        message = f"stores of type {store.type!r} keep no records; name one of type 'conversation'"
        report.error((*path, "store"), message)


def _check_composed(report: Report, declared: Mapping[str, StoreDeclaration]) -> None:
    """Check the names of the stores that others are made of."""
    for store in declared.values():
        for index, name in enumerate(getattr(store.config, "composes", ())):
            part = declared.get(name)
            if part is None:
                message = _no_store(name, declared.keys() - {store.name})
            elif getattr(part.config, "composes", ()):
                message = f"{quoted(name)} is itself made of other stores; name those"
            elif getattr(part.config, "memory_path", "auto") is None:
                message = f"{quoted(name)} keeps its items for this process only: give it a `memory_path`"
            else:
                continue
            report.error((*store.place.location, "config", "stores", index), message, Rule.UNKNOWN_NAME)


def _check_encryption(report: Report, stores: Sequence[StoreDeclaration]) -> None:
    """Report what would be written in plain beside encrypted stores, and stores that do not share their key."""
    blocks = {store.name: block for store in stores if (block := getattr(store.config, "encryption", None))}
    first = next(iter(blocks), "")
    for store in stores if blocks else ():
        path = (*store.place.location, "config")
        if blocks.get(store.name) == blocks[first]:
            continue
        if store.name in blocks:
            path, message = (*path, "encryption"), f"the files of a session have one key: name that of {quoted(first)}"
        elif "memory_path" not in type(store.config).model_fields:
            message = f"stores of the type {store.type!r} keep files that are not encrypted as {quoted(first)} is"
        elif getattr(store.config, "memory_path", None) and not getattr(store.config, "sends_to", ()):
            message = f"this store's file is plain, and that of {quoted(first)} is encrypted: give both `encryption`"
        else:
            continue
        report.error(path, message, Rule.PLAIN_FILE)


def _check_agents(
    report: Report, nodes: Sequence[NodeConfig], parts: Mapping[str, NamedPart], recording: ConversationRecording | None
) -> None:
    """Warn about agents that no node is: only calls that are recorded from Python could be theirs."""
    known = frozenset(_agent_names(nodes))
    named = [*_viewed(nodes)]
    for at, rule in enumerate(recording.copies if recording else ()):
        place = (*parts["conversation"].path, "copies", at, "agents")
        named += [((*place, index), name) for index, name in enumerate(rule.agents)]
    for where, name in named:
        # A variable that nothing sets has its own warning.
        if name not in known and not any(map(has_placeholder, (name, *known))):
            hint = f"no agent is named {quoted(name)}{did_you_mean(name, known)}"
            report.warn(where, f"{hint} Agents: {choices(sorted(known))}.", Rule.UNKNOWN_NAME)


def _agent_names(nodes: Iterable[NodeConfig]) -> Iterator[str]:
    """Return the names by which stores know the agents, those of subgraphs included."""
    for node in nodes:
        if node.config is not None:
            yield node.config.agent or node.id
        elif isinstance(node.settings, Subgraph):
            yield from _agent_names(node.settings.nodes)


def _viewed(nodes: Iterable[NodeConfig]) -> Iterator[tuple[DocumentPath, str]]:
    """Return the agents whose interactions others see, with the place of each in this document."""
    for node in nodes:
        if node.config is not None:
            for index, entry in enumerate(node.config.memories):
                if entry.view is not None and entry.view.agent_id is not None:
                    yield (*node.place.location, "config", "memories", index, "view", "agent_id"), entry.view.agent_id
        elif isinstance(node.settings, Subgraph) and node.settings.file is None:
            yield from _viewed(node.settings.nodes)


# Files and folders.


def report_missing_sources(report: Report, path: DocumentPath, store: StoreDeclaration, folder: pathlib.Path) -> None:
    """Warn about the sources of a store, whose `config` stands at `path`, that do not exist or are empty."""
    start = base_dir_of(store, folder)
    for index, source in enumerate(source_paths(store)):
        place = (start / source).resolve()
        if has_magic(source):
            continue
        if not place.exists():
            other = pathlib.Path(source).resolve()
            nor = f" and no {str(other)!r}" if path[0] == "graph" and other != place else ""
            message = f"there is no {str(place)!r}{nor}: nothing is indexed of it"
        elif place.is_dir() and not any(place.iterdir()):
            message = f"the folder {str(place)!r} is empty: nothing is indexed of it"
        else:
            continue
        report.warn((*path, "file_sources", index, "path"), message, Rule.MISSING_FILE)


def _check_files_of_devall(report: Report, path: DocumentPath, store: StoreDeclaration, folder: pathlib.Path) -> None:
    """Warn where DevAll would find a file in the working directory and devmem starts a new one beside the workflow."""
    for key in ("memory_path", "index_path"):
        written = getattr(store.config, key, None)
        if written is None or str(written) == "auto":
            continue
        ours, theirs = base_dir_of(store, folder) / str(written), pathlib.Path(str(written))
        if not theirs.is_absolute() and theirs.exists() and not ours.exists():
            message = (
                f"paths start at the workflow's folder here, so this is {str(ours)!r}, which does not exist; "
                f"DevAll takes {str(theirs.resolve())!r}, which does"
            )
            report.warn((*path, key), message, Rule.MISSING_FILE)


def report_unwritable(
    report: Report, path: DocumentPath, store: StoreDeclaration, folder: pathlib.Path, level: Level
) -> None:
    """Report the paths of a store where neither the file nor, if it is missing, its folder can be written."""
    for key in ("memory_path", "index_path"):
        written = getattr(store.config, key, None)
        if not isinstance(written, str) or written == "auto" or "://" in written or has_placeholder(written):
            continue
        file = base_dir_of(store, folder) / expanded(written)
        there = next((one for one in (file, *file.parents) if one.exists()), file)
        if file.is_dir():
            message = f"{str(file)!r} is a folder; name a file in it"
        elif there != file and not there.is_dir():
            message = f"{str(file)!r} cannot be written: {str(there)!r} is not a folder"
        elif not os.access(there, os.W_OK):
            message = f"{str(file)!r} cannot be written: {str(there)!r} does not allow it"
        else:
            continue
        report.add((*path, key), message, Rule.UNWRITABLE_FILE, level)
