"""A closer look at a workflow that can be used: providers, packages, files, and stores that nobody reads or writes."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from devmem.config.agent import AgentConfig
from devmem.config.attachment import Attachment
from devmem.config.chat import ChatConfig
from devmem.config.compose import compose
from devmem.config.embedding import EmbeddingConfig
from devmem.config.embedding_review import review_embedding, review_package
from devmem.config.report import Report
from devmem.config.retrieval import RetrievalConfig
from devmem.config.rules import Rule
from devmem.config.source import read_text
from devmem.config.store import StoreDeclaration
from devmem.config.wording import choices, closest
from devmem.config.workflow import NodeConfig, Subgraph, Workflow
from devmem.errors import Level

_FILE_URL: Final = re.compile(r"\A(?:sqlite|json)://", re.IGNORECASE)
_NAMES_STORE: Final = re.compile(r"[?&]store=[^&]")
_CHAT_PROVIDERS: Final = ("extractive", "openai")


def review(report: Report, workflow: Workflow) -> None:
    """Report whatever will probably go wrong or is probably forgotten, in subgraphs too.

    Files of subgraphs are read again; beside that nothing is opened, asked or written.
    """
    recording = workflow.conversation
    recorded = [recording.store, *(rule.into for rule in recording.copies)] if recording and recording.active else []
    _review_graph(report, workflow.nodes, workflow.memory, workflow.base_dir, recorded)
    _review_subgraphs(report, workflow.nodes, workflow.base_dir, set())


def _review_subgraphs(
    report: Report, nodes: Iterable[NodeConfig], folder: pathlib.Path, reviewed: set[pathlib.Path]
) -> None:
    for graph in (node.settings for node in nodes if isinstance(node.settings, Subgraph)):
        inner, base_dir = report, folder
        if graph.file is not None:
            if graph.file in reviewed:
                continue
            reviewed.add(graph.file)
            inner = Report(compose(read_text(graph.file, str(graph.file)), origin=str(graph.file)))
            base_dir = graph.file.parent
        _review_graph(inner, graph.nodes, graph.memory, base_dir)
        _review_subgraphs(inner, graph.nodes, base_dir, reviewed)
        if inner is not report:
            report.include(inner.findings)


def _review_graph(
    report: Report,
    nodes: Sequence[NodeConfig],
    stores: Sequence[StoreDeclaration],
    base_dir: pathlib.Path,
    recorded: Iterable[str] = (),
) -> None:
    """Review one graph without its subgraphs; `recorded` are stores that are written beside its agents' writes."""
    for node in nodes:
        if node.config is not None:
            _review_chat(report, node.config, (*node.place.location, "config"))
    for store in stores:
        path = (*store.place.location, "config")
        for key, block in store.config:
            if isinstance(block, EmbeddingConfig):
                review_embedding(report, block, (*path, key), base_dir)
            elif isinstance(block, RetrievalConfig) and block.tokens is not None:
                review_embedding(report, block.tokens, (*path, key, "tokens"), base_dir, tokens=True)
            elif isinstance(block, ChatConfig):
                _review_chat(report, block, (*path, key))
    _review_places(report, stores, base_dir)
    _review_use(report, nodes, stores, recorded)


def _review_chat(report: Report, config: AgentConfig | ChatConfig, path: tuple[str | int, ...]) -> None:
    provider = config.provider
    if provider == "extractive":
        return
    if provider not in _CHAT_PROVIDERS and config.base_url is None:
        meant = closest(provider, _CHAT_PROVIDERS)
        hint = f"; did you mean {meant!r}?" if meant else "."
        message = (
            f"unknown chat provider {provider!r}{hint} Possible: {choices(_CHAT_PROVIDERS)}, or any with `base_url`."
        )
        report.warn((*path, "provider"), message, Rule.UNKNOWN_NAME)
        return
    if not config.model:
        key = "name" if isinstance(config, AgentConfig) else "model"
        report.warn((*path, "provider"), f"{provider!r} needs the model's name; set `{key}`", Rule.MISSING_MODEL)
    review_package(report, "openai", (*path, "provider"))


def _review_places(report: Report, stores: Iterable[StoreDeclaration], base_dir: pathlib.Path) -> None:
    """Warn about stores that keep their items in one place: a file, or a store of a database."""
    first: dict[str, StoreDeclaration] = {}
    for store, place in _places(stores, base_dir):
        if place not in first:
            first[place] = store
            continue
        message = f"the store {first[place].name!r} has the same place; their items will be mixed, or one is refused"
        report.warn((*store.place.location, "config", "memory_path"), message, Rule.SHARED_FILE)


def _places(stores: Iterable[StoreDeclaration], base_dir: pathlib.Path) -> Iterator[tuple[StoreDeclaration, str]]:
    for store in stores:
        path = getattr(store.config, "memory_path", None)
        if not isinstance(path, str) or path == "auto":
            continue
        path = _FILE_URL.sub("", path)
        if "://" not in path:
            yield store, str((base_dir / pathlib.Path(path).expanduser()).resolve())
        elif _NAMES_STORE.search(path):
            # A database keeps stores apart by their names, unless the URL has one for all.
            yield store, path


def _review_use(
    report: Report, nodes: Iterable[NodeConfig], stores: Iterable[StoreDeclaration], recorded: Iterable[str]
) -> None:
    """Suggest to look at stores that nobody attaches, reads or writes."""
    attached = [*_attached(nodes)]
    read = {entry.name for entry in attached if entry.read}
    written = {entry.name for entry in attached if entry.write} | {*recorded}
    for store in stores:
        path = (*store.place.location, "name")
        fills_itself = getattr(store.config, "read_only", False)
        if store.name not in read | written:
            report.warn(path, f"no agent attaches the store {store.name!r}", Rule.UNUSED_STORE, level=Level.NOTE)
        elif store.name not in read:
            message = f"the store {store.name!r} is written, but no agent reads it"
            report.warn(path, message, Rule.NEVER_READ, level=Level.NOTE)
        elif store.name not in written and not fills_itself:
            message = f"the store {store.name!r} is read, but no agent writes it"
            report.warn(path, message, Rule.NEVER_WRITTEN, level=Level.NOTE)


def _attached(nodes: Iterable[NodeConfig]) -> Iterator[Attachment]:
    """Return the attachments of a graph's agents, and those of its subgraphs' to stores that they inherit."""
    for node in nodes:
        if node.config is not None:
            yield from node.config.memories
        elif isinstance(node.settings, Subgraph):
            own = {store.name for store in node.settings.memory}
            yield from (entry for entry in _attached(node.settings.nodes) if entry.name not in own)
